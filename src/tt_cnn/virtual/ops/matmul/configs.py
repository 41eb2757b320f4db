# SPDX-License-Identifier: Apache-2.0
"""Program configs of matmul: what users give, and the one frozen form that planning works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tt_cnn.virtual.types.geometry import CoreCoord, CoreRangeSet
from tt_cnn.virtual.types.unary import UnaryOpType, UnaryWithParam, activation

Activation = tuple[UnaryOpType, tuple[float, ...]]

SIMPLE = "MatmulMultiCoreProgramConfig"
REUSE = "MatmulMultiCoreReuseProgramConfig"
MCAST_1D = "MatmulMultiCoreReuseMultiCast1DProgramConfig"
MCAST_2D = "MatmulMultiCoreReuseMultiCastProgramConfig"
DRAM_SHARDED = "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig"

FACTORIES = {
    SIMPLE: "MatmulMultiCoreProgramFactory",
    REUSE: "MatmulMultiCoreReuseOptimizedProgramFactory",
    MCAST_1D: "MatmulMultiCoreReuseMcast1DProgramFactory",
    MCAST_2D: "MatmulMultiCoreReuseMcast2DProgramFactory",
    DRAM_SHARDED: "MatmulMultiCoreReuseMultiCastDRAMShardedProgramFactory",
}


@dataclass(frozen=True)
class ProgramConfig:
    """How a product is distributed. All sizes but the grid are in tiles.

    `per_core_*` is what a core computes, `block_*` what it holds at a time, `subblock_*` what fits the destination
    registers, `block_k` (`in0_block_w`) how much of the inner dimension is read at a time: partial sums are stored
    after each.
    """

    kind: str
    grid: tuple[int, int]
    block_k: int = 1
    subblock_h: int = 1
    subblock_w: int = 1
    block_h: int = 1
    block_w: int = 1
    per_core_m: int = 1
    per_core_n: int = 1
    fuse_batch: bool = False
    mcast_left: bool = False
    """One-dimensional: the left matrix is sent to all cores, and each has columns of its own (else rows)."""
    transpose_mcast: bool = False
    activation: Activation | None = None
    untilize_out: bool = False
    workers: int = 1
    """Cores for each bank of DRAM."""

    @property
    def is_mcast(self) -> bool:
        return self.kind in (MCAST_1D, MCAST_2D)


@dataclass(kw_only=True)
class _Blocks:
    """What all configs begin with."""

    compute_with_storage_grid_size: CoreCoord | tuple[int, int]
    in0_block_w: int
    out_subblock_h: int
    out_subblock_w: int

    kind: ClassVar[str]

    def _frozen(self, m: int, n: int, out_h: int | None = None, out_w: int | None = None, **rest: Any) -> ProgramConfig:
        """A core computes m x n tiles and holds as many of them at a time, unless `out_*` says how many."""
        grid = CoreCoord(self.compute_with_storage_grid_size)
        return ProgramConfig(
            self.kind,
            (grid.x, grid.y),
            self.in0_block_w,
            self.out_subblock_h,
            self.out_subblock_w,
            m if out_h is None else out_h,
            n if out_w is None else out_w,
            m,
            n,
            **rest,
        )


@dataclass(kw_only=True)
class MatmulMultiCoreReuseProgramConfig(_Blocks):
    """Every core computes whole blocks of the output on its own."""

    per_core_M: int
    per_core_N: int
    allowed_worker_cores: CoreRangeSet | None = None

    kind: ClassVar[str] = REUSE

    def frozen(self) -> ProgramConfig:
        return self._frozen(self.per_core_M, self.per_core_N)


@dataclass(kw_only=True)
class _Multicast(_Blocks):
    """Cores that send each other what they read."""

    out_block_h: int | None = None
    out_block_w: int | None = None
    per_core_M: int
    per_core_N: int

    def _shared(self, fuse_batch: bool, fused: UnaryWithParam | None, **rest: Any) -> ProgramConfig:
        sizes = self.per_core_M, self.per_core_N, self.out_block_h, self.out_block_w
        return self._frozen(*sizes, fuse_batch=fuse_batch, activation=activation(fused), **rest)


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCastProgramConfig(_Multicast):
    """A grid of cores: rows share the left matrix, columns the right one."""

    transpose_mcast: bool
    fused_activation: UnaryWithParam | None = None
    fuse_batch: bool = True
    allowed_worker_cores: CoreRangeSet | None = None

    kind: ClassVar[str] = MCAST_2D

    def frozen(self) -> ProgramConfig:
        return self._shared(self.fuse_batch, self.fused_activation, transpose_mcast=self.transpose_mcast)


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCast1DProgramConfig(_Multicast):
    """A line of cores that share one of the matrices."""

    fuse_batch: bool
    fused_activation: UnaryWithParam | None = None
    mcast_in0: bool
    gather_in0: bool = False
    hop_cores: CoreRangeSet | None = None
    num_global_cb_receivers: int = 1
    untilize_out: bool = False
    allowed_worker_cores: CoreRangeSet | None = None
    stream_in1: bool = False

    kind: ClassVar[str] = MCAST_1D

    def frozen(self) -> ProgramConfig:
        if self.gather_in0 or self.stream_in1:
            raise NotImplementedError("the virtual card has no matmul with gather_in0 (ring of cores)")
        own = {"mcast_left": self.mcast_in0, "untilize_out": self.untilize_out}
        return self._shared(self.fuse_batch, self.fused_activation, **own)


@dataclass(kw_only=True)
class MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig:
    """One row of tiles times a matrix whose columns lie in the banks of DRAM."""

    in0_block_w: int
    per_core_M: int
    per_core_N: int
    fused_activation: UnaryWithParam | None = None
    num_workers_per_dram_bank: int = 1

    kind: ClassVar[str] = DRAM_SHARDED

    def frozen(self) -> ProgramConfig:
        return ProgramConfig(
            self.kind,
            (1, 1),
            self.in0_block_w,
            per_core_m=self.per_core_M,
            per_core_n=self.per_core_N,
            activation=activation(self.fused_activation),
            workers=self.num_workers_per_dram_bank,
        )


PROGRAM_CONFIGS = (
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
    MatmulMultiCoreReuseProgramConfig,
    MatmulMultiCoreReuseMultiCastProgramConfig,
    MatmulMultiCoreReuseMultiCast1DProgramConfig,
)


def frozen_config(config: Any) -> ProgramConfig | None:
    """A user's program config in the form that planning works with; None where the choice is the library's."""
    if config is None:
        return None
    if not isinstance(config, PROGRAM_CONFIGS):
        raise TypeError(f"program_config is {config!r}; it must be a matmul program config")
    return config.frozen()
