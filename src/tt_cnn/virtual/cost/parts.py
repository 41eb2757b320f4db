# SPDX-License-Identifier: Apache-2.0
"""What a step's cost consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Cycles(NamedTuple):
    """A step in cycles of the busiest core: the whole, and how busy each part of the core is meanwhile.

    Parts overlap, so the whole is less than their sum; waiting is in the whole alone.
    """

    total: float
    matrix: float = 0.0
    vector: float = 0.0
    unpack_pack: float = 0.0
    dram: float = 0.0
    noc: float = 0.0
    drain: float = 0.0
    """At the end, when the compute kernel is done and the writer is not."""


@dataclass(frozen=True)
class KernelCost:
    """Predicted times of one dispatched step, in nanoseconds.

    `ns` is the kernel's duration; eight of ten published durations lay between `low_ns` and `high_ns` where the model
    predicted as much for the same op (`bands.py`; both are 0 in profiles of older files). The parts say how long each
    unit of the busiest core works; they overlap. The `pm_` times are those of upstream's own performance models, by its
    rules.
    """

    ns: float
    matrix_ns: float
    vector_ns: float
    unpack_pack_ns: float
    dram_ns: float
    noc_ns: float
    launch_ns: float
    drain_ns: float
    pm_ideal_ns: float
    pm_compute_ns: float
    pm_bandwidth_ns: float
    low_ns: float = 0.0
    high_ns: float = 0.0

    @property
    def compute_ns(self) -> float:
        """The compute kernel's part, waiting included."""
        return max(self.ns - self.launch_ns - self.drain_ns, self.matrix_ns)

    @property
    def fpu_utilisation(self) -> float:
        """`PM FPU UTIL`, as a share of 1."""
        return self.pm_compute_ns / self.ns

    def adjusted_utilisation(self, grid_cores: int, cores: int) -> float:
        """PM ideal over kernel duration, as if the step had all cores of the grid."""
        return self.pm_ideal_ns / self.ns * grid_cores / cores

    @property
    def bound(self) -> str:
        """The part that is busy longest."""
        parts = {
            "matrix": self.matrix_ns,
            "vector": self.vector_ns,
            "unpack and pack": self.unpack_pack_ns,
            "DRAM": self.dram_ns,
            "network": self.noc_ns,
            "launch": self.launch_ns,
        }
        return max(parts, key=lambda name: parts[name])
