"""Queues, events and traces as TT-NN's functions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tt_cnn.virtual.device import MeshDevice
from tt_cnn.virtual.queues import Event, current_queue
from tt_cnn.virtual.trace import MeshTraceId


class MeshEvent:
    """What `record_event` returns: a mark in a queue of a device."""

    def __init__(self, device: MeshDevice, event: Event) -> None:
        self.device = device
        self.event = event


def record_event(
    device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = (), device_range: Any = None
) -> MeshEvent:
    """Mark what is on a queue so far."""
    return MeshEvent(device, device.record_event(cq_id))


def wait_for_event(cq_id: int | None, event: MeshEvent) -> None:
    """Make a queue wait for a mark; the host goes on."""
    event.device.wait_for_event(cq_id, event.event)


def event_synchronize(event: MeshEvent) -> None:
    """Make the host wait for a mark."""
    event.device.event_synchronize(event.event)


def synchronize_device(device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = ()) -> None:
    """Make the host wait for all queues, or for one."""
    device.synchronize(cq_id)


def begin_trace_capture(mesh_device: MeshDevice, *, cq_id: int | None = None) -> MeshTraceId:
    return mesh_device.begin_trace(cq_id)


def end_trace_capture(mesh_device: MeshDevice, trace_id: MeshTraceId, *, cq_id: int | None = None) -> None:
    mesh_device.end_trace(trace_id, cq_id)


def execute_trace(
    mesh_device: MeshDevice, trace_id: MeshTraceId, *, cq_id: int | None = None, blocking: bool = True
) -> None:
    mesh_device.execute_trace(trace_id, cq_id, blocking)


def release_trace(mesh_device: MeshDevice, trace_id: MeshTraceId) -> None:
    mesh_device.release_trace(trace_id)


@contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """Calls made inside go to this queue."""
    token = current_queue.set(cq_id)
    try:
        yield
    finally:
        current_queue.reset(token)
