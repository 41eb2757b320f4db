# SPDX-License-Identifier: Apache-2.0
"""Queues, events and traces as TT-NN's functions."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from tt_cnn.interrupts import Setting
from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.queues.queue import Event, current_queue
from tt_cnn.virtual.tracing.trace import MeshTraceId


class MeshEvent:
    """What `record_event` returns: a mark in a queue of a device."""

    def __init__(self, device: MeshDevice, event: Event, number: int) -> None:
        self.device = device
        self.event = event
        self.number = number

    def __repr__(self) -> str:
        end = ", ".join(str(d - 1) for d in self.device.shape)
        start = ", ".join("0" for _ in self.device.shape)
        return (
            f"MeshEvent(id={self.number}, device_id={self.device.id()}, mesh_cq_id={self.event.queue_id}, device_range="
            f"MeshCoordinateRange(start=MeshCoordinate([{start}]), end=MeshCoordinate([{end}])))"
        )


def _expect(function: str, *arguments: tuple[str, Any, Any]) -> None:
    """TT-NN's TypeError where an argument has another type."""
    for name, value, kind in arguments:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is _QUEUE):
            raise TypeError(
                f"{function}(): incompatible function arguments: {name} is {value!r}, a {type(value).__name__}"
            )
        if kind is _QUEUE and value is not None and not 0 <= value < 256:
            raise TypeError(f"{function}(): incompatible function arguments: {name} is {value}, not a queue")


_QUEUE = (int, type(None))


def record_event(
    mesh_device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = (), device_range: Any = None
) -> MeshEvent:
    """Mark what is on a queue so far."""
    _expect("record_event", ("mesh_device", mesh_device, MeshDevice), ("cq_id", cq_id, _QUEUE))
    refuse_unfollowed("record_event", sub_device_ids=sub_device_ids or None, device_range=device_range)
    return MeshEvent(mesh_device, *mesh_device.record_event(cq_id))


def wait_for_event(cq_id: int | None, mesh_event: MeshEvent) -> None:
    """Make a queue wait for a mark; the host goes on."""
    _expect("wait_for_event", ("cq_id", cq_id, _QUEUE), ("mesh_event", mesh_event, MeshEvent))
    mesh_event.device.wait_for_event(cq_id, mesh_event.event)


def event_synchronize(mesh_event: MeshEvent) -> None:
    """Make the host wait for a mark."""
    _expect("event_synchronize", ("mesh_event", mesh_event, MeshEvent))
    mesh_event.device.event_synchronize(mesh_event.event)


def synchronize_device(device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = ()) -> None:
    """Make the host wait for all queues, or for one."""
    _expect("synchronize_device", ("device", device, MeshDevice), ("cq_id", cq_id, _QUEUE))
    refuse_unfollowed("synchronize_device", sub_device_ids=sub_device_ids or None)
    device.synchronize(cq_id)


def begin_trace_capture(mesh_device: MeshDevice, *, cq_id: int | None = None) -> MeshTraceId:
    _expect("begin_trace_capture", ("mesh_device", mesh_device, MeshDevice), ("cq_id", cq_id, _QUEUE))
    return mesh_device.begin_trace(cq_id)


def end_trace_capture(mesh_device: MeshDevice, trace_id: MeshTraceId, *, cq_id: int | None = None) -> None:
    _expect_trace("end_trace_capture", mesh_device, trace_id, cq_id)
    mesh_device.end_trace(trace_id, cq_id)


def execute_trace(
    mesh_device: MeshDevice, trace_id: MeshTraceId, *, cq_id: int | None = None, blocking: bool = True
) -> None:
    _expect_trace("execute_trace", mesh_device, trace_id, cq_id)
    mesh_device.execute_trace(trace_id, cq_id, blocking)


def release_trace(mesh_device: MeshDevice, trace_id: MeshTraceId) -> None:
    _expect_trace("release_trace", mesh_device, trace_id, None)
    mesh_device.release_trace(trace_id)


def _expect_trace(function: str, mesh_device: MeshDevice, trace_id: MeshTraceId, cq_id: int | None) -> None:
    _expect(
        function,
        ("mesh_device", mesh_device, MeshDevice),
        ("trace_id", trace_id, MeshTraceId),
        ("cq_id", cq_id, _QUEUE),
    )


def command_queue(cq_id: int) -> AbstractContextManager[None]:
    """Calls made inside go to this queue."""
    _expect("command_queue", ("cq_id", cq_id, int))
    return Setting(current_queue, cq_id)
