# SPDX-License-Identifier: Apache-2.0
"""What one core holds while calls run, counted as `ttnn.graph` of TT-NN 0.81.1 counts it."""

from __future__ import annotations

from dataclasses import dataclass

_UNSIGNED = 2**64
"""The library counts in `size_t` and takes off what is freed, though it did not see it allocated
(`extract_resource_usage_per_core`, ttnn/core/graph/graph_trace_utils.cpp): where more is freed than was allocated so
far, the next allocation makes a peak near 2**64. tt-mlir repairs such peaks (TTNNOpConstraints.h, its issue 9069)."""


@dataclass
class PeakMemoryUsagePerCore:
    """Bytes per core, each kind at its own peak and all of them together at theirs."""

    peak_cb: int = 0
    peak_l1: int = 0
    peak_dataflow_buffer: int = 0
    peak_scratchpad: int = 0
    peak_total: int = 0

    def __repr__(self) -> str:
        return (
            f"Peak Memory Usage Per Core:\n  CB:         {self.peak_cb} bytes\n  L1:         {self.peak_l1} bytes\n"
            f"  DFB:        {self.peak_dataflow_buffer} bytes\n  Scratchpad: {self.peak_scratchpad} bytes\n"
            f"  Total:      {self.peak_total} bytes"
        )


class CoreUsage:
    """Tensors by the bytes that they take in a bank, L1_SMALL's among them, and buffers of programs.

    Buffers that borrow a tensor's memory are left out: they would count twice. Which cores something stands on
    does not matter. Buffers of a program stay until the next program clears them.
    """

    def __init__(self) -> None:
        self.peak = PeakMemoryUsagePerCore()
        self._tensors = 0
        self._static: dict[str, int] = {}

    def take(self, size: int) -> None:
        self._tensors += size
        self._note("l1", self._tensors)

    def give(self, size: int) -> None:
        self._tensors -= size

    def place(self, kind: str, size: int) -> None:
        """A buffer of a program: `cb`, `dataflow_buffer` or `scratchpad`."""
        self._static[kind] = self._static.get(kind, 0) + size
        self._note(kind, self._static[kind])

    def clear(self) -> None:
        self._static.clear()

    def _note(self, kind: str, size: int) -> None:
        name, peak = f"peak_{kind}", self.peak
        setattr(peak, name, max(getattr(peak, name), size % _UNSIGNED))
        peak.peak_total = max(peak.peak_total, (self._tensors + sum(self._static.values())) % _UNSIGNED)
