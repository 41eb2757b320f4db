# SPDX-License-Identifier: Apache-2.0
"""Time in transfer, in compute, and in both at once: measured on the virtual card, estimated on a real one or a GPU."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from tt_cnn.pipeline.executors import Executor
from tt_cnn.pipeline.executors.timing import time_verbs
from tt_cnn.runtime import is_virtual


class Work(NamedTuple):
    """Seconds of all inputs so far."""

    transfer: float
    compute: float
    overlapped: float


class Watch(Protocol):
    def work(self, inputs: int, wall: float) -> Work:
        """What so many inputs, in so many seconds, were for the device."""

    def stop(self) -> None:
        """No more inputs follow."""


class MeasuredWork:
    """The virtual card tells when each of its commands started and ended."""

    def __init__(self, device: Any) -> None:
        from tt_cnn.virtual.devices.command_times import CommandTimes

        self._times = CommandTimes(device)
        self._times.start()

    def work(self, inputs: int, wall: float) -> Work:
        self._times.collect()
        return Work(self._times.transfer, self._times.compute, self._times.overlapped)

    def stop(self) -> None:
        self._times.stop()


class EstimatedWork:
    """A real card does not tell, nor does a GPU: what one input takes when nothing overlaps, times the inputs.

    What transfer and compute take alone beyond the wall time went on at the same time.
    """

    def __init__(self, executor: Executor, host_input: Any) -> None:
        self._alone = time_verbs(executor, host_input)

    def work(self, inputs: int, wall: float) -> Work:
        transfer, compute = inputs * self._alone.transfer, inputs * self._alone.compute
        return Work(transfer, compute, max(0.0, min(transfer, compute, transfer + compute - wall)) if wall else 0.0)

    def stop(self) -> None:
        """Nothing runs."""


class UnknownWork:
    """A user's own executor has no verbs that could be timed one by one."""

    def work(self, inputs: int, wall: float) -> Work:
        return Work(0.0, 0.0, 0.0)

    def stop(self) -> None:
        """Nothing runs."""


def watch(executor: Executor, host_input: Any) -> Watch:
    """From now on, for an executor that was compiled with this input."""
    estimated = not is_virtual() or executor.device.engine.streams
    if estimated and not hasattr(executor, "dram_input"):
        return UnknownWork()
    if not is_virtual():
        return EstimatedWork(executor, host_input)
    if executor.device.engine.streams:  # a clock between launches would hold them up
        time_verbs(executor, host_input)  # the first replay compiles the trace
        return EstimatedWork(executor, host_input)
    return MeasuredWork(executor.device)
