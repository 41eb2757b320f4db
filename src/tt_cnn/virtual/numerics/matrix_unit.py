# SPDX-License-Identifier: Apache-2.0
"""The matrix unit: element-wise add, sub and mul, and matrix products, down to the rounding of its adder.

No document describes the adder. These rules were found from the recorded values (corpus `values/`) and reproduce all
of its binary, hardswish and matmul cases in every element:

* What is added is aligned to the largest exponent involved, 10 mantissa bits below it, and rounded there.
* A product's exponent is the sum of its operands' exponents, whether or not the mantissas carry over, less 5 for the
  low part of source A and 7 for the low part of source B.
* `add` and `sub` align both operands with ties away from zero, in float32 registers too.
* A matrix product takes 16 products at a time along the inner dimension: the halves of a tile, first both at the first
  phase, then both at the next. Each group of 8 is aligned to its own largest exponent, ties away from zero, and added
  up without error. A float32 register just adds the two sums. A bfloat16 register is aligned with them once more,
  itself with ties away from zero, the sums with ties up.
* A single product (`mul`) is such a sum with one term.
* A bfloat16 register then rounds to nearest, ties away from zero.

`exact=False` rounds once where the card rounds many times, at the speed of the host's own arithmetic.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.accumulation import product as summed_products
from tt_cnn.virtual.numerics.bits import as_float, as_int, exponent_bits, flush_denormals, power_of_two
from tt_cnn.virtual.numerics.fidelity import effective_operands, phases, phases_of, split_a, split_b
from tt_cnn.virtual.numerics.primitive import primitive
from tt_cnn.virtual.types.enums import MathFidelity

TILE = 32
STEP = 16  # inner products per instruction
GROUP = 8  # of which this many share an alignment

_ADDER_BITS = 10
_LOW_A, _LOW_B = 5, 7
_TIES_AWAY = 1.0 + 2.0**-20  # moves a tie up and nothing else: products have 12 significant bits
_SMALLEST_EXPONENT = 24  # (biased) of an alignment; smaller products are as good as zero
_CHUNK = 1 << 22  # products held at a time


def add(a: Tensor, b: Tensor, *, fp32_dest: bool = False, exact: bool = True) -> Tensor:
    """a + b: register values."""
    if not exact:
        total = a + b
        return total if fp32_dest else round_away(total)
    return _aligned_sum(a, b, fp32_dest=fp32_dest)


@primitive("aligned_sum")
def _aligned_sum(a: Tensor, b: Tensor, *, fp32_dest: bool) -> Tensor:
    a, b = (operand.contiguous() for operand in torch.broadcast_tensors(a, b))
    quantum = power_of_two(torch.maximum(exponent_bits(a), exponent_bits(b)) - 127 - _ADDER_BITS)
    total = (_nearest_away(a / quantum) + _nearest_away(b / quantum)) * quantum
    register = total.to(torch.float32)
    return _sane(register if fp32_dest else round_away(register), a + b)


def sub(a: Tensor, b: Tensor, *, fp32_dest: bool = False, exact: bool = True) -> Tensor:
    """a - b: register values."""
    return add(a, -b, fp32_dest=fp32_dest, exact=exact)


def mul(
    a: Tensor,
    b: Tensor,
    fidelity: MathFidelity = MathFidelity.HiFi4,
    *,
    fp32_dest: bool = False,
    exact: bool = True,
) -> Tensor:
    """a * b, the register being zero before: register values. `a` is source A."""
    return _multiplied(a, b, fidelity=fidelity, fp32_dest=fp32_dest, exact=exact)


@primitive("multiplied")
def _multiplied(a: Tensor, b: Tensor, *, fidelity: MathFidelity, fp32_dest: bool, exact: bool) -> Tensor:
    a, b = (operand.contiguous() for operand in torch.broadcast_tensors(a, b))
    register = torch.zeros_like(a)
    exponent = exponent_bits(a) + exponent_bits(b) - 127
    for (part_a, part_b), (low_a, low_b) in zip(phases(a, b, fidelity), phases_of(fidelity), strict=True):
        product = part_a * part_b
        if fp32_dest:
            register = register + product
        elif exact:
            largest = torch.maximum(exponent_bits(register), exponent - _LOW_A * low_a - _LOW_B * low_b)
            quantum = power_of_two(largest - 127 - _ADDER_BITS)
            total = (_nearest_away(register / quantum) + torch.floor(product / quantum + 0.5)) * quantum
            register = round_away(total.to(torch.float32))
        else:
            register = round_away(register + product)
    return _sane(register, a * b)


def matmul(
    activations: Tensor,
    weights: Tensor,
    fidelity: MathFidelity = MathFidelity.HiFi4,
    *,
    fp32_dest: bool = False,
    register: Tensor | None = None,
    exact: bool = True,
) -> Tensor:
    """(m, k) @ (k, n) onto `register` (m, n), zero if not given: register values.

    One call is what the card does without leaving the register. A blocked product calls it for each block of the
    inner dimension and packs and unpacks the register in between, in whatever format the partial sums are kept.
    """
    if not exact:
        total = _quick_product(activations, weights, fidelity)
        total = total if register is None else total + register
        return total if fp32_dest else round_away(total)
    start = () if register is None else (register,)
    return _followed_product(activations, weights, *start, fidelity=fidelity, fp32_dest=fp32_dest)


@primitive("followed_product", shape=lambda x, w, *_, **__: (x[0], w[1]))
def _followed_product(
    activations: Tensor, weights: Tensor, register: Tensor | None = None, *, fidelity: MathFidelity, fp32_dest: bool
) -> Tensor:
    m, n = activations.shape[0], weights.shape[1]
    padding = -activations.shape[1] % TILE
    activations = torch.nn.functional.pad(activations, (0, padding)).contiguous()
    weights = torch.nn.functional.pad(weights, (0, 0, 0, padding)).contiguous()
    start = torch.zeros(m, n, device=activations.device) if register is None else register
    rows = max(1, _CHUNK // (STEP * n))
    pieces = [
        _accumulate(start[row : row + rows], activations[row : row + rows], weights, fidelity, fp32_dest)
        for row in range(0, m, rows)
    ]
    return torch.cat(pieces)


def _accumulate(register: Tensor, x: Tensor, w: Tensor, fidelity: MathFidelity, fp32_dest: bool) -> Tensor:
    parts_w, parts_x = split_a(w), split_b(x)
    exponents_x, exponents_w = exponent_bits(x), exponent_bits(w)
    for tile in range(0, x.shape[1], TILE):
        steps = [slice(tile + offset, tile + offset + STEP) for offset in range(0, TILE, STEP)]
        largest = [_group_exponents(exponents_x[:, step], exponents_w[step]) for step in steps]
        for low_w, low_x in phases_of(fidelity):
            for step, exponent in zip(steps, largest, strict=True):
                exponent = (exponent - _LOW_A * low_w - _LOW_B * low_x).clamp_(min=_SMALLEST_EXPONENT)
                sums = _group_sums(parts_x[low_x][:, step], parts_w[low_w][step], exponent)
                register = _add_sums(register, sums, exponent, fp32_dest)
    return register


def _group_exponents(x: Tensor, w: Tensor) -> Tensor:
    """The largest (biased) product exponent of each group: (m, groups, n)."""
    both = x.view(x.shape[0], -1, GROUP, 1) + w.view(-1, GROUP, w.shape[1])
    return both.amax(2) - 127


def _group_sums(x: Tensor, w: Tensor, exponent: Tensor) -> Tensor:
    """Sums of the aligned products of each group, as whole numbers of the group's quantum: (m, groups, n)."""
    products = x.reshape(x.shape[0], -1, GROUP, 1) * w.reshape(-1, GROUP, w.shape[1])
    scale = as_float((2 * 127 + _ADDER_BITS - exponent).clamp_(1, 254) << 23) * _TIES_AWAY
    return products.mul_(scale.unsqueeze(2)).round_().sum(2)


def _add_sums(register: Tensor, sums: Tensor, exponent: Tensor, fp32_dest: bool) -> Tensor:
    if fp32_dest:
        quantum = power_of_two(exponent - 127 - _ADDER_BITS)
        return (register + (sums * quantum).sum(1)).to(torch.float32)
    largest = torch.maximum(exponent_bits(register), exponent.amax(1))
    quantum = power_of_two(largest - 127 - _ADDER_BITS)
    total = _nearest_away(register / quantum)
    total += torch.floor(sums * power_of_two(exponent - largest.unsqueeze(1)) + 0.5).sum(1)
    return round_away((total * quantum).to(torch.float32))


def _quick_product(x: Tensor, w: Tensor, fidelity: MathFidelity) -> Tensor:
    operands = effective_operands(w, x, fidelity)
    if operands is not None:
        return summed_products(operands[1], operands[0])
    (w_high, w_low), (x_high, x_low) = split_a(w), split_b(x)
    return summed_products(x_high, w_high + w_low) + summed_products(x_low, w_high)


@primitive("round_away")
def round_away(x: Tensor) -> Tensor:
    """To bfloat16, ties away from zero; denormals and -0 to +0. NaN stays, whatever its bits are."""
    rounded = flush_denormals(as_float((as_int(x.contiguous()) + 0x8000) & -0x10000)) + 0.0
    return torch.where(x.isnan(), x, rounded)


def _nearest_away(x: Tensor) -> Tensor:
    return torch.sign(x) * torch.floor(x.abs() + 0.5)


def _sane(result: Tensor, ideal: Tensor) -> Tensor:
    """Infinities and NaN do not pass through the alignment arithmetic."""
    return torch.where(torch.isfinite(ideal), result, ideal)
