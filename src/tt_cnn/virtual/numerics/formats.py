# SPDX-License-Identifier: Apache-2.0
"""Host conversions: what `from_torch` makes of float32 values before they go to the card.

Rules as measured on TT-NN 0.81.1 (corpus `numerics.npz`, bit for bit):

* bfloat16: round to nearest, ties to even; overflow gives inf, denormals and NaN are kept.
* bfloat8_b, bfloat4_b: 16 consecutive values of a row share the largest exponent among them. A value is a sign and a
  magnitude of 7 (3) bits in units of 2 ** (exponent - 6) (2 ** (exponent - 2)), rounded to nearest, ties to even, from
  the float32 mantissa aligned to the shared exponent in 24 bits. A magnitude that would overflow saturates: the shared
  exponent never grows. Denormals are zero and zeros have no sign. A block with an inf or NaN has exponent 255: infs
  and NaNs read back, the rest is zero.
* integers: truncation toward zero, then the low bits (300 as uint8 is 44).

All functions return the value that can be read back, in a carrier that holds it exactly: float32 for the float
formats, the torch integer type of `INTEGER_CARRIERS` for integers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import HIDDEN, INFINITY, MAGNITUDE, MANTISSA, as_float, as_int
from tt_cnn.virtual.types.enums import DataType

BLOCK = 16
"""Values that share one exponent: half a row of a 32x32 tile."""

MAGNITUDE_BITS = {DataType.BFLOAT8_B: 7, DataType.BFLOAT4_B: 3}

INTEGER_CARRIERS = {
    DataType.UINT8: torch.uint8,
    DataType.INT8: torch.int8,
    DataType.UINT16: torch.int32,
    DataType.INT32: torch.int32,
    DataType.UINT32: torch.int64,
}
_INTEGER_BITS = {DataType.UINT8: 8, DataType.INT8: 8, DataType.UINT16: 16, DataType.INT32: 32, DataType.UINT32: 32}


def as_floats(x: Tensor) -> Tensor:
    """Whole numbers as float32; floats as they are, in whichever width the engine computes."""
    return x if x.is_floating_point() else x.to(torch.float32)


def host_round(x: Tensor, dtype: DataType) -> Tensor:
    """`x` (float32) as `from_torch(..., dtype=dtype)` would store it.

    For the block formats the last dimension is a row of tiles: padded, a multiple of 16.
    """
    if dtype is DataType.FLOAT32:
        return x
    if dtype is DataType.BFLOAT16:
        return x.to(torch.bfloat16).to(torch.float32)
    if dtype in MAGNITUDE_BITS:
        return _host_round_blocks(x, MAGNITUDE_BITS[dtype])
    if dtype in INTEGER_CARRIERS:
        return to_integer(x, dtype)
    raise ValueError(f"{dtype} has no host conversion")


def to_integer(x: Tensor, dtype: DataType) -> Tensor:
    """Truncate toward zero and keep the low bits of the two's complement."""
    bits = _INTEGER_BITS[dtype]
    low = x.to(torch.int64) & ((1 << bits) - 1)
    if dtype in (DataType.INT8, DataType.INT32):
        low = torch.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low.to(INTEGER_CARRIERS[dtype])


def block_exponents(x: Tensor) -> Tensor:
    """The bits of 2 ** E for each block of 16 along the last dimension, E the largest exponent in the block.

    Returned as an int32 tensor (..., blocks, 1): a float32 power of two, 0 where the block holds no normal number,
    inf where it holds an inf or NaN.
    """
    if x.shape[-1] % BLOCK:
        raise ValueError(f"a row of {x.shape[-1]} values is not made of blocks of {BLOCK}")
    magnitudes = as_int(x).view(*x.shape[:-1], x.shape[-1] // BLOCK, BLOCK) & MAGNITUDE
    return magnitudes.amax(-1, keepdim=True) & INFINITY


def _host_round_blocks(x: Tensor, magnitude_bits: int) -> Tensor:
    """Blocks without a normal number become zeros at once: prepared weights of depthwise convolutions have many."""
    x = x.contiguous()
    shared = block_exponents(x)
    blocks = x.view(*x.shape[:-1], x.shape[-1] // BLOCK, BLOCK)
    filled = shared[..., 0] != 0
    if 2 * int(filled.sum()) > filled.numel():
        return _rounded_blocks(blocks, shared, magnitude_bits).view(x.shape)
    rounded = torch.zeros_like(blocks)
    rounded[filled] = _rounded_blocks(blocks[filled], shared[filled], magnitude_bits)
    return rounded.view(x.shape)


def _rounded_blocks(blocks: Tensor, shared: Tensor, magnitude_bits: int) -> Tensor:
    """(..., 16) rounded to multiples of a quantum that the block's exponent (..., 1) makes."""
    bits = as_int(blocks)
    exponent = bits & INFINITY
    mantissa = torch.where(exponent == 0, 0, (bits & MANTISSA) | HIDDEN)
    # Aligning to the shared exponent drops low bits before the rounding looks at them (corpus: `normal`, where
    # -26.500004 quanta become -26): the tie it decides is that of the shifted 24-bit mantissa.
    aligned = mantissa >> ((shared - exponent) >> 23).clamp_(max=31)
    dropped = 24 - magnitude_bits
    half = (1 << (dropped - 1)) - 1
    steps = (aligned + half + ((aligned >> dropped) & 1)) >> dropped
    steps.clamp_(max=2**magnitude_bits - 1)
    steps = torch.where(bits < 0, -steps, steps)
    quantum = as_float(shared) * 2.0 ** (1 - magnitude_bits)
    return torch.where(shared == INFINITY, torch.where(torch.isfinite(blocks), 0.0, blocks), steps * quantum)
