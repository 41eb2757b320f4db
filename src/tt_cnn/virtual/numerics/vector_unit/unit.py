# SPDX-License-Identifier: Apache-2.0
"""The vector unit's arithmetic: 32 lanes of float32 between two trips to the destination register.

Kernels are written once against `VectorUnit`. Its `exact` flag chooses how a multiply-add rounds: as Wormhole's does,
bit for bit, or as the host's float32 does, which is an order of magnitude faster and differs in the last bits only.

Wormhole's multiply-add (after the description of `SFPMAD` in Tenstorrent's ISA documentation) is *partially* fused.
Product and addend are aligned to the larger of their exponents and cut there, three bits below a float32 mantissa,
with the lost bits remembered in the lowest one; the sum is then rounded once, to nearest even. Denormals count as zero
on the way in and become +0 on the way out, and so does -0. A sum that grows by two bits forgets the upper of them.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.bits import SMALLEST_NORMAL, as_float, as_int, keep_mantissa, power_of_two
from tt_cnn.virtual.numerics.packer import to_bfloat16
from tt_cnn.virtual.numerics.primitive import primitive

Lane = Tensor | float
"""An operand of a lane: a vector, or a constant that is the same in all lanes."""

_EXTRA_BITS = 3
_ALIGNED_BITS = 23 + _EXTRA_BITS


def float32(value: float) -> float:
    """A Python number as the float32 constant a kernel loads; too large a one is infinite."""
    return ctypes.c_float(value).value


def from_bits(pattern: int) -> float:
    """The float32 with this bit pattern."""
    return float(struct.unpack("f", struct.pack("I", pattern & 0xFFFFFFFF))[0])


@dataclass(frozen=True)
class VectorUnit:
    """How the vector unit is set up while a kernel runs.

    fp32_dest: the destination register holds float32, else bfloat16, which a store reaches by truncation.
    approx: the kernel's approximate variant was asked for (`math_approx_mode` or an op's fast mode).
    fp32_input: the op's input tensor is FLOAT32; some kernels then use longer polynomials.
    exact: multiply-adds round as Wormhole's do, instead of as the host's.
    """

    fp32_dest: bool = False
    approx: bool = False
    fp32_input: bool = False
    exact: bool = True

    def mad(self, a: Lane, b: Lane, c: Lane) -> Tensor:
        """a * b + c"""
        if self.exact:
            return _partially_fused(a, b, c)
        return _as_tensor(_constant(a) * _constant(b) + _constant(c), a, b, c)

    def mul(self, a: Lane, b: Lane) -> Tensor:
        if self.exact:
            return _partially_fused(a, b, 0.0)
        return _as_tensor(_constant(a) * _constant(b), a, b)

    def add(self, a: Lane, b: Lane) -> Tensor:
        if self.exact:
            return _partially_fused(a, 1.0, b)
        return _as_tensor(_constant(a) + _constant(b), a, b)

    def sub(self, a: Lane, b: Lane) -> Tensor:
        return self.add(a, -b)

    def polynomial(self, x: Tensor, *coefficients: Lane) -> Tensor:
        """c0 + c1 * x + c2 * x ** 2 + ... by Horner's rule, one multiply-add a coefficient."""
        result: Lane = coefficients[-1]
        for coefficient in reversed(coefficients[:-1]):
            result = self.mad(result, x, coefficient)
        return _as_tensor(result, x)

    def round(self, x: Tensor) -> Tensor:
        """A kernel's explicit conversion in front of a bfloat16 register: to nearest, ties away from zero."""
        return x if self.fp32_dest else round_to_bfloat16(x)

    def round_even(self, x: Tensor) -> Tensor:
        """The same in the kernels that round with integer instructions: to nearest, ties to even."""
        return x if self.fp32_dest else round_to_bfloat16_even(x)

    def store(self, x: Tensor) -> Tensor:
        """What the destination register keeps: float32 as it is, or the upper half, denormals flushed."""
        return x if self.fp32_dest else stored(x)


@primitive("stored")
def stored(x: Tensor) -> Tensor:
    """In a bfloat16 register."""
    return flush(keep_mantissa(x.contiguous(), 7))


def flush(x: Tensor) -> Tensor:
    return torch.where(x.abs() < SMALLEST_NORMAL, 0.0, x)


def round_to_bfloat16(x: Tensor) -> Tensor:
    """`SFPSTOCHRND` without its randomness: ties away from zero; denormals and -0 to +0, NaN to inf."""
    return to_bfloat16(x)


@primitive("round_even")
def round_to_bfloat16_even(x: Tensor) -> Tensor:
    """NaN stays, whatever its bits are."""
    bits = as_int(x.contiguous())
    return torch.where(x.isnan(), x, as_float((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000))


def _constant(value: Lane) -> Lane:
    return value if isinstance(value, Tensor) else float32(value)


def _as_tensor(value: Lane, *like: Lane) -> Tensor:
    """Constant expressions spread over the lanes of whichever operand is a vector."""
    if isinstance(value, Tensor):
        return value
    vector = next(operand for operand in like if isinstance(operand, Tensor))
    return torch.full_like(vector, value)


def _partially_fused(*operands: Lane) -> Tensor:
    vectors = tuple(isinstance(operand, Tensor) for operand in operands)
    return _multiply_add(*_tensors(*operands), vectors=vectors)


@primitive("partially_fused")
def _multiply_add(a: Tensor, b: Tensor, c: Tensor, *, vectors: tuple[bool, bool, bool]) -> Tensor:
    """Of constants denormals are not flushed."""
    operands = (flush(x) if is_vector else x for x, is_vector in zip((a, b, c), vectors, strict=True))
    a, b, c = torch.broadcast_tensors(*operands)
    product = a.to(torch.float64) * b.to(torch.float64)
    addend = c.to(torch.float64)
    product_exponent = _exponent(a) + _exponent(b)
    exponent = torch.maximum(product_exponent, _exponent(c))
    product = torch.where((product_exponent < -127) & torch.isfinite(product), 0.0, product)
    scale = power_of_two(_ALIGNED_BITS - exponent)
    total = _align(product, scale) + _align(addend, scale)
    # the hardware's forgotten bit, see the module's text
    magnitude = total.abs()
    grown = (magnitude >> (_ALIGNED_BITS + 2)) != 0
    magnitude = torch.where(grown, magnitude & ~2, magnitude)
    value = (magnitude.to(torch.float64) / scale * torch.sign(total)).to(torch.float32)
    value = torch.where(product == 0, c, value)
    wild = (product_exponent >= 128) | ~torch.isfinite(addend) | ~torch.isfinite(product)
    overflowed = torch.copysign(torch.full_like(product, torch.inf), product)
    product = torch.where((product_exponent >= 128) & torch.isfinite(product), overflowed, product)
    value = torch.where(wild, (product + addend).to(torch.float32), value)
    return torch.where(value.abs() < SMALLEST_NORMAL, 0.0, value)


def _tensors(*operands: Lane) -> list[Tensor]:
    device = next(operand.device for operand in operands if isinstance(operand, Tensor))
    return [operand if isinstance(operand, Tensor) else _spread(operand, device) for operand in operands]


def _spread(value: float, device: torch.device) -> Tensor:
    """A constant; on a GPU it is made there, without a copy from the host."""
    if device.type == "cpu":
        return torch.tensor(value, dtype=torch.float32)
    return torch.full((), value, dtype=torch.float32, device=device)


def _exponent(x: Tensor) -> Tensor:
    return ((as_int(x.contiguous()) >> 23) & 0xFF) - 127


def _align(x: Tensor, scale: Tensor) -> Tensor:
    """|x| * scale cut to an integer whose lowest bit remembers what was cut, with the sign of x (as int64)."""
    scaled = (x.nan_to_num(0.0, 0.0, 0.0) * scale).abs()
    cut = scaled.to(torch.int64)
    sticky = (cut != 0) & (cut.to(torch.float64) != scaled)
    magnitude = cut | sticky
    return torch.where(x < 0, -magnitude, magnitude)
