# SPDX-License-Identifier: Apache-2.0
"""The product that is asked for: matrices in tiles, batches, and how to compute."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import Arch, DataType, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True)
class Compute:
    """The compute kernel config of a step, resolved."""

    fidelity: MathFidelity
    approx: bool = False
    fp32: bool = False
    packer_l1: bool = False
    full_sync: bool = False

    @property
    def registers(self) -> int:
        """Tiles that the destination registers hold for a kernel."""
        count = 16 if self.full_sync else 8
        return count // 2 if self.fp32 else count

    @classmethod
    def of(cls, config: WormholeComputeKernelConfig) -> Compute:
        return cls(
            config.math_fidelity,
            config.math_approx_mode,
            config.fp32_dest_acc_en,
            config.packer_l1_acc,
            config.dst_full_sync_en,
        )


def resolve_compute(
    config: WormholeComputeKernelConfig | None,
    left: DataType,
    right: DataType,
    output: DataType,
    arch: Arch,
    *,
    chosen_by_user: bool,
) -> Compute:
    """TT-NN's defaults (`create_matmul_attributes`): HiFi2 where the library chooses the program and an operand is not
    a block format; float32 products at HiFi3 on Wormhole (HiFi4 with float32 registers is unsound there)."""
    if config is not None:
        return Compute.of(config)
    low = left.is_block_float and right.is_block_float
    fidelity = MathFidelity.LoFi if chosen_by_user or low else MathFidelity.HiFi2
    if left is DataType.FLOAT32 and right is DataType.FLOAT32:
        fidelity = MathFidelity.HiFi3 if arch is Arch.WORMHOLE_B0 else MathFidelity.HiFi4
    whole = output is DataType.FLOAT32
    return Compute(fidelity, False, whole, not whole)


@dataclass(frozen=True)
class Problem:
    """`left @ right` (+ bias) as the library's planning sees it: after transposition, before any program is chosen."""

    left: Spec
    right: Spec
    bias: Spec | None
    output: MemoryConfig
    dtype: DataType
    compute: Compute
    transpose_a: bool = False
    transpose_b: bool = False

    @cached_property
    def a(self) -> tuple[int, ...]:
        return _turned(tuple(self.left.shape), self.transpose_a)

    @cached_property
    def b(self) -> tuple[int, ...]:
        return _turned(tuple(self.right.shape), self.transpose_b)

    @cached_property
    def a_padded(self) -> tuple[int, ...]:
        return _turned(tuple(self.left.padded_shape), self.transpose_a)

    @cached_property
    def b_padded(self) -> tuple[int, ...]:
        return _turned(tuple(self.right.padded_shape), self.transpose_b)

    @cached_property
    def m(self) -> int:
        """Tile rows of one batch."""
        return (self.a_padded[-2] if len(self.a_padded) > 1 else 1) // TILE_SIZE

    @cached_property
    def k(self) -> int:
        return self.a_padded[-1] // TILE_SIZE

    @cached_property
    def n(self) -> int:
        return self.b_padded[-1] // TILE_SIZE

    @cached_property
    def batch_a(self) -> int:
        return prod(self.a_padded[:-2])

    @cached_property
    def batch_b(self) -> int:
        return prod(self.b_padded[:-2])

    def rows(self, fuse_batch: bool) -> int:
        return self.m * self.batch_a if fuse_batch else self.m

    @property
    def interleaved(self) -> bool:
        return not (self.left.is_sharded or self.right.is_sharded or self.output.is_sharded())

    @property
    def all_dram(self) -> bool:
        return self.left.memory_config.is_dram() and self.right.memory_config.is_dram() and self.output.is_dram()

    @property
    def bias_bytes(self) -> int:
        return self.bias.dtype.tile_bytes if self.bias is not None else 0

    @cached_property
    def output_shape(self) -> Shape:
        """`compute_matmul_output_shape`."""
        a, b = self.a, self.b
        extra = max(0, max(len(a), len(b)) - (len(a) == 1 or len(b) == 1) - len(a))
        shape: list[Any] = list(b if len(b) > len(a) else a)
        for i in range(extra):
            fatal(b[i] == 1, "When in1 rank greater than in0 rank front dimensions need to be 1")
            shape[i] = b[i]
        for i in range(len(a) - 1):
            shape[extra + i] = a[i]
        shape[-1] = b[-1]
        if len(a) == 1 and len(shape) > 1:
            del shape[-2]
        if len(b) == 1:
            del shape[-1]
        if len(a) >= 3 and len(a) == len(b) and prod(a[:-2]) == 1:
            shape[:-2] = b[:-2]
        return Shape(shape)


def _turned(shape: tuple[int, ...], transpose: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if transpose and len(shape) > 1 else shape
