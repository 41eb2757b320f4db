# SPDX-License-Identifier: Apache-2.0
"""The programs of a matmul step: a type for each of TT-NN's factories."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.ops.matmul.configs import MCAST_1D, MCAST_2D, REUSE, SIMPLE
from tt_cnn.virtual.ops.matmul.program import MatmulProgram, Route
from tt_cnn.virtual.ops.matmul.time import block_by_block, tile_by_tile
from tt_cnn.virtual.planning.program import Step


@dataclass(frozen=True, kw_only=True)
class MatmulMultiCoreProgram(MatmulProgram):
    """Tile by tile of the output, without blocks: no partial sums are stored."""

    factory: str = "MatmulMultiCoreProgramFactory"

    @property
    def depth(self) -> int:
        return self.inner

    def time(self, step: Step, figures: Figures) -> Cycles:
        return tile_by_tile(self, step, figures)


@dataclass(frozen=True, kw_only=True)
class MatmulReuseProgram(MatmulProgram):
    """Whole blocks of the output, every core on its own."""

    factory: str = "MatmulMultiCoreReuseOptimizedProgramFactory"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return block_by_block(self, step, figures)


@dataclass(frozen=True, kw_only=True)
class MatmulMcast1DProgram(MatmulReuseProgram):
    """A line of cores: one reads one of the matrices and sends it to all others."""

    factory: str = "MatmulMultiCoreReuseMcast1DProgramFactory"

    @property
    def routes(self) -> tuple[Route, Route]:
        cores = self.cores.num_cores()
        own, shared = Route(cores), Route(1, cores - 1)
        return (shared, own) if self.config.mcast_left else (own, shared)


@dataclass(frozen=True, kw_only=True)
class MatmulMcast2DProgram(MatmulReuseProgram):
    """A grid of cores: rows of it share the left matrix, columns the right one."""

    factory: str = "MatmulMultiCoreReuseMcast2DProgramFactory"

    @property
    def routes(self) -> tuple[Route, Route]:
        x, y = self.config.grid
        return Route(y, x - 1), Route(x, y - 1)


PROGRAMS: dict[str, type[MatmulMultiCoreProgram] | type[MatmulReuseProgram]] = {
    SIMPLE: MatmulMultiCoreProgram,
    REUSE: MatmulReuseProgram,
    MCAST_1D: MatmulMcast1DProgram,
    MCAST_2D: MatmulMcast2DProgram,
}
"""By the kind of program config."""
