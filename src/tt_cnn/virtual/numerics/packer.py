# SPDX-License-Identifier: Apache-2.0
"""The packer: what becomes of a destination register when it is stored in a tile.

The packer works in two steps (Tenstorrent's ISA documentation of Wormhole, "Packers: Format Conversion"): an early one
right after reading the register, and a late one in front of L1.

* bfloat16: the early step rounds to nearest with ties *away from zero*. Denormals and -0 become +0, NaN becomes inf.
* float32: nothing happens.
* bfloat8_b: the early step rounds to a 6-bit mantissa (7 significant bits, ties away); the late step aligns 16 values
  to the largest exponent among them and rounds the magnitude to 7 bits, ties away again. Rounding twice is TT-NN's
  default; `precise=True` is its `bfp8_pack_precise`, which `typecast` sets: bfloat16 goes straight to the late step.
* bfloat4_b: as bfloat8_b without `precise`, and then the low 4 bits of the magnitude are *cut off*.

All of it agrees with the recorded values (corpus `values/`: typecast, unary and binary cases) in every element.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import as_float, as_int
from tt_cnn.virtual.numerics.formats import BLOCK, INTEGER_CARRIERS, MAGNITUDE_BITS, block_exponents
from tt_cnn.virtual.numerics.primitive import is_noting, primitive
from tt_cnn.virtual.types.enums import DataType

_LARGEST_DENORMAL = 2.0**-126 - 2.0**-149
# Just above one: moves a tie up and nothing else, since what is rounded has at most 8 significant bits.
_TIES_AWAY = 1.0 + 2.0**-20


def pack(x: Tensor, dtype: DataType, *, precise: bool = False, inplace: bool = False) -> Tensor:
    """Values of a destination register (float32 tensor) as a tile of `dtype` holds them.

    The last dimension is a row of tiles (padded to a multiple of 16) for the block formats. With `inplace` the memory
    of `x` may be reused for the result; `x` must then be contiguous and is not to be read again.
    """
    if dtype is DataType.FLOAT32 or dtype in INTEGER_CARRIERS:
        return x
    inplace = inplace and not is_noting()
    if dtype is DataType.BFLOAT16:
        return to_bfloat16(x, inplace=inplace)
    if dtype in MAGNITUDE_BITS:
        return to_blocks(x, dtype=dtype, precise=precise and dtype is DataType.BFLOAT8_B, inplace=inplace)
    raise ValueError(f"the packer does not write {dtype}")


@primitive("to_bfloat16")
def to_bfloat16(x: Tensor, *, inplace: bool = False) -> Tensor:
    """To nearest, ties away from zero; denormals and -0 to +0, NaN to inf."""
    return _clean(_round_mantissa(x, 7, inplace))


@primitive("to_blocks")
def to_blocks(x: Tensor, *, dtype: DataType, precise: bool, inplace: bool = False) -> Tensor:
    early = _round_mantissa(x, 7 if precise else 6, inplace)
    return _pack_blocks(early, keep=MAGNITUDE_BITS[dtype], saturate=precise)


def _round_mantissa(x: Tensor, mantissa_bits: int, inplace: bool) -> Tensor:
    """Round to nearest with ties away from zero: half a unit is added to the magnitude, which lies in the low bits.

    NaN becomes inf before that: in those with all bits set it would reach the sign.
    """
    dropped = 23 - mantissa_bits
    bits = as_int((x.nan_to_num_ if inplace else x.nan_to_num)(math.inf, math.inf, -math.inf))
    return as_float(bits.add_(1 << (dropped - 1)).bitwise_and_(-1 << dropped))


def _clean(x: Tensor) -> Tensor:
    """Denormals and -0 to +0; in place."""
    return torch.ops.aten.hardshrink.out(x, _LARGEST_DENORMAL, out=x)


def _pack_blocks(x: Tensor, keep: int, saturate: bool) -> Tensor:
    """Round `x` (at most 8 significant bits, own memory) to magnitudes of 7 bits, then cut to `keep` bits; in place.

    A block that holds an inf keeps its infs and loses the rest, as the exponent 255 is theirs. Blocks of numbers below
    2 ** -119 are rounded as if they held that number: their true quantum is denormal.
    """
    x = x.contiguous()
    power = as_float(block_exponents(x).clamp_(min=8 << 23, max=254 << 23))
    blocks = x.view(*x.shape[:-1], x.shape[-1] // BLOCK, BLOCK)
    quantum = power * 2.0**-6
    infinite = torch.isinf(blocks) if saturate else None
    blocks.mul_((_TIES_AWAY * 64.0) / power).round_()
    if infinite is not None:
        blocks.clamp_(-127, 127)
        blocks.masked_fill_(infinite & (blocks > 0), float("inf")).masked_fill_(infinite & (blocks < 0), float("-inf"))
    if keep < 7:
        blocks.div_(2.0 ** (7 - keep)).trunc_()
        quantum *= 2.0 ** (7 - keep)
    return blocks.mul_(quantum).add_(0.0).view(x.shape)
