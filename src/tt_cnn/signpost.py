# SPDX-License-Identifier: Apache-2.0
"""Marks between commands, as Tracy's users know them: reports show which part of a model a step belongs to."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from tt_cnn import runtime

if TYPE_CHECKING:
    from tt_cnn.virtual.queues.queue import Command


def signpost(header: str, message: str = "") -> None:
    """Note a mark in the commands of every device that is open: it stands before what is enqueued next.

    Nothing runs for it, and a trace does not grow. With the real TT-NN it is Tracy's signpost, where Tracy is there.
    """
    if not isinstance(header, str) or not header:
        raise ValueError(f"header is {header!r}; a signpost is marked with a text")
    if not isinstance(message, str):
        raise ValueError(f"message is {message!r}; it must be a text")
    if not runtime.is_virtual():
        _tracy_signpost(header, message)
        return
    # imported only where the virtual card is in use
    from tt_cnn.virtual.devices.opening import open_devices, recorded_devices
    from tt_cnn.virtual.queues.queue import SIGNPOST, Command, current_queue

    for device in dict.fromkeys([*open_devices(), *recorded_devices]):
        with device.lock:
            trace = device.capturing
            command = Command(
                SIGNPOST,
                current_queue.get(),
                _nothing,
                attributes={"header": header, "message": message},
                trace_id=int(trace.id) if trace is not None else None,
            )
            for listener in device.listeners:
                listener(command)


def is_signpost(command: Command) -> bool:
    from tt_cnn.virtual.queues.queue import SIGNPOST

    return command.name == SIGNPOST


def _tracy_signpost(header: str, message: str) -> None:
    try:
        tracy = importlib.import_module("tracy")
    except ImportError:
        return
    tracy.signpost(header=header, message=message or None)


def _nothing() -> None:
    """What a mark does."""
