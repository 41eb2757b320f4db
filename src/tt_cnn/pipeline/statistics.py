# SPDX-License-Identifier: Apache-2.0
"""What a pipeline has done so far, in numbers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import ceil

from tt_cnn.pipeline.work import Watch, Work


@dataclass(frozen=True)
class PipelineStats:
    """Seconds, since compiling. On the virtual card they are this machine's, not the card's."""

    inputs: int
    """Inputs whose outputs the host has waited for."""
    wall: float
    """Time with inputs in the pipeline."""
    fps: float
    latency_median: float
    """From handing an input over until the host has waited for its outputs. In a batch all but the first queue up, so
    ask a `stream` for the latency of one input."""
    latency_p99: float
    transfer: float
    """Time in writes and reads. On the virtual card it is measured, command by command, on the whole device; on a real
    card or a GPU, which do not tell, it is what one input takes alone, measured by `compile`, times the inputs."""
    compute: float
    """Time in staging, the model and spilling, likewise."""
    overlapped: float
    """How much of transfer and compute happened at the same time; on a real card what they take alone beyond the wall
    time."""

    def __str__(self) -> str:
        inputs = "1 input" if self.inputs == 1 else f"{self.inputs} inputs"
        return (
            f"{inputs} in {self.wall:.3f} s, {self.fps:.1f} fps, latency {_ms(self.latency_median)} median "
            f"{_ms(self.latency_p99)} p99, transfer {self.transfer:.3f} s, compute {self.compute:.3f} s, overlapped "
            f"{self.overlapped:.3f} s"
        )


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.2f} ms"


class StatsBook:
    """Follows inputs from the moment they are handed over to the moment the host has waited for them."""

    KEPT = 100_000
    """Latencies that are remembered; a stream may never end, its memory must."""

    def __init__(self) -> None:
        self.finished = 0
        self._inside = 0
        self._busy_since = 0.0
        self._wall = 0.0
        self._latencies: list[float] = []

    def handed_over(self) -> float:
        now = time.perf_counter()
        if not self._inside:
            self._busy_since = now
        self._inside += 1
        return now

    def has_finished(self, handed_over: float) -> None:
        latency = time.perf_counter() - handed_over
        if len(self._latencies) < self.KEPT:
            self._latencies.append(latency)
        else:
            self._latencies[self.finished % self.KEPT] = latency
        self.finished += 1
        self._left()

    def were_dropped(self, inputs: int) -> None:
        """Inputs whose outputs are not waited for."""
        if inputs:
            self._left(inputs)

    def all_were_dropped(self) -> None:
        self.were_dropped(self._inside)

    def _left(self, inputs: int = 1) -> None:
        self._inside -= inputs
        if not self._inside:
            self._wall += time.perf_counter() - self._busy_since

    def summary(self, watch: Watch | None) -> PipelineStats:
        wall = self._wall + (time.perf_counter() - self._busy_since if self._inside else 0.0)
        ordered = sorted(self._latencies)
        work = Work(0.0, 0.0, 0.0) if watch is None else watch.work(self.finished, wall)
        return PipelineStats(
            inputs=self.finished,
            wall=wall,
            fps=self.finished / wall if wall else 0.0,
            latency_median=_quantile(ordered, 0.5),
            latency_p99=_quantile(ordered, 0.99),
            **work._asdict(),
        )


def _quantile(ordered: list[float], part: float) -> float:
    """The smallest value that this part of all values does not exceed."""
    if not ordered:
        return 0.0
    return ordered[ceil(part * len(ordered)) - 1]
