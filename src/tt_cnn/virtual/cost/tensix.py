# SPDX-License-Identifier: Apache-2.0
"""The three threads of a Tensix core: unpack, math (matrix and vector unit), pack. They overlap; the slowest counts."""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.types.enums import DataType, MathFidelity

FLOP_PER_CYCLE = 4096
"""Of a core's matrix engine at the lowest fidelity, by upstream's performance model."""
PHASES = {MathFidelity.LoFi: 1, MathFidelity.HiFi2: 2, MathFidelity.HiFi3: 3, MathFidelity.HiFi4: 4}

VECTOR_INSTRUCTIONS: dict[str, tuple[int, int]] = {
    "identity": (2, 2),
    "relu": (4, 4),
    "relu6": (8, 8),
    "relu_max": (6, 6),
    "relu_min": (6, 6),
    "leaky_relu": (7, 7),
    "clamp": (8, 8),
    "clamp_tss": (8, 8),
    "hardtanh": (8, 8),
    "hardsigmoid": (9, 9),
    "hardswish": (11, 11),
    "hardmish": (11, 11),
    "square": (4, 4),
    "abs": (4, 4),
    "neg": (4, 4),
    "sigmoid": (10, 58),
    "silu": (48, 48),
    "mish": (66, 72),
    "softplus": (80, 90),
    "exp": (14, 57),
    "log": (35, 40),
    "sqrt": (18, 33),
    "rsqrt": (18, 33),
    "recip": (12, 22),
    "tanh": (10, 60),
    "gelu": (14, 86),
    "erf": (117, 117),
    "gelu_tanh": (60, 70),
    "elu": (30, 36),
    "selu": (32, 38),
    "eqz": (7, 7),
    "nez": (7, 7),
    "ltz": (7, 7),
    "gtz": (7, 7),
    "lez": (7, 7),
    "gez": (7, 7),
    "where_tss": (8, 8),
    "fill": (3, 3),
    "typecast": (4, 4),
}
"""Instructions for 32 elements by name: with approximation, without. Counted in the kernels' sources
(ckernel_sfpu_*.h), loads of constants and waits for results included; exact exp, gelu, erf, rsqrt and softplus, and
silu, by published times (op-times): 1.98 us a bfloat16 tile of exp on Wormhole, 1.65 of silu."""
_FLOAT32_INSTRUCTIONS = {"exp": 98}
"""Of kernels that have another way to be exact in float32; exp by published times, 3.4 us per tile on Wormhole."""
_UNKNOWN_INSTRUCTIONS = 20


def vector_cycles(figures: Figures, name: str, approx: bool, dtype: DataType | None = None) -> float:
    """The vector unit's time for a tile."""
    counts = VECTOR_INSTRUCTIONS.get(name.lower(), (_UNKNOWN_INSTRUCTIONS, _UNKNOWN_INSTRUCTIONS))
    if not approx and dtype is DataType.FLOAT32:
        return figures.vector_rows * _FLOAT32_INSTRUCTIONS.get(name.lower(), counts[1])
    return figures.vector_rows * counts[0 if approx else 1]


def unpack_cycles(figures: Figures, dtype: DataType) -> float:
    return dtype.tile_bytes / figures.unpack_bytes_per_cycle


def pack_cycles(figures: Figures, dtype: DataType, accumulates: bool = False) -> float:
    cycles = max(dtype.tile_bytes, 1024) / figures.pack_bytes_per_cycle
    return figures.pack_tile_cycles + cycles * (figures.accumulate_factor if accumulates else 1.0)


class BlockProduct(NamedTuple):
    """`height x inner` tiles times `inner x width` tiles, sub-block by sub-block, as the kernels loop.

    A sub-block stays in the destination registers over the inner dimension. Each inner step is one call that loads a
    tile of the operand with fewer tiles and streams those of the other past it.
    """

    height: int
    width: int
    inner: int
    sub_h: int
    sub_w: int
    left: DataType
    right: DataType
    target: DataType
    fidelity: MathFidelity
    accumulates: bool = False
    undisturbed: bool = False
    """No operands arrive in L1 meanwhile: the unpackers have it for themselves."""

    def subblocks(self) -> int:
        return max(1, self.height // self.sub_h) * max(1, self.width // self.sub_w)

    def multiply_cycles(self, figures: Figures) -> float:
        """The math thread's part, or the unpackers' where tiles do not come quickly enough."""
        left_streams = self.sub_h > self.sub_w
        streamed = self.left if left_streams else self.right
        rate = figures.stream_left_bytes_per_cycle if left_streams else figures.stream_right_bytes_per_cycle
        if self.undisturbed and not streamed.is_block_float:  # what limits block floats is their decoding, not L1
            rate = max(rate, figures.unpack_bytes_per_cycle)
        product = max(
            (figures.product_cycles + figures.phase_cycles) * PHASES[self.fidelity], streamed.tile_bytes / rate
        )
        step = self.sub_h * self.sub_w * product + figures.block_call_cycles
        return self.subblocks() * self.inner * step

    def pack_cycles(self, figures: Figures) -> float:
        tiles = self.subblocks() * self.sub_h * self.sub_w
        return tiles * pack_cycles(figures, self.target, self.accumulates)

    def cycles(self, figures: Figures) -> float:
        sync = self.subblocks() * figures.sync_cycles
        return max(self.multiply_cycles(figures), self.pack_cycles(figures)) + sync


def reload_cycles(figures: Figures, tiles: int) -> float:
    """Partial sums brought back into the destination registers."""
    return tiles * figures.copy_tile_cycles


def finish_cycles(
    figures: Figures, tiles: int, partial: DataType, target: DataType, bias: bool, activation: str | None, approx: bool
) -> tuple[float, float]:
    """After the last inner block: bias added (partial sums unpacked and packed once more), activation applied.

    The packer applies a relu on its way. Returns the cycles without the vector unit's, and those.
    """
    passing = 0.0
    if bias:
        work = max(2 * unpack_cycles(figures, partial), pack_cycles(figures, target), figures.copy_tile_cycles)
        passing = tiles * (work + figures.sync_cycles / 4)
    vector = 0.0 if activation in (None, "RELU") else tiles * vector_cycles(figures, str(activation), approx)
    return passing, vector
