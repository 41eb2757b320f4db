# SPDX-License-Identifier: Apache-2.0
"""The vector unit: its arithmetic bit by bit, and every kernel against the function it stands for."""

from __future__ import annotations

import math
import struct

import pytest
import torch
import torch.nn.functional as functional

from tt_cnn.virtual.numerics import VectorUnit, binary_ops, run_binary, run_unary, unary_ops
from tt_cnn.virtual.numerics.vector_unit import lanes

EXACT = VectorUnit()
WIDE = VectorUnit(fp32_dest=True, fp32_input=True)


def partially_fused(a: float, b: float, c: float) -> float:
    """a * b + c in integers, written from the description alone: align, cut with a sticky bit, add, round once."""

    def parts(value: float) -> tuple[int, int, int]:
        pattern = struct.unpack("I", struct.pack("f", value))[0]
        exponent = (pattern >> 23) & 0xFF
        return pattern >> 31, exponent, ((pattern & 0x7FFFFF) | 0x800000) << 3 if exponent else 0

    def sticky(value: int, places: int) -> int:
        kept = value >> places
        return kept | 1 if kept and kept << places != value else kept

    (sa, ea, ma), (sb, eb, mb), (sc, ec, mc) = parts(a), parts(b), parts(c)
    product = (ma >> 3) * (mb >> 3) << 3
    product = (product >> 23) | bool(product & 0x7FFFFF)
    exponent_p = ea + eb - 127
    if product == 0 or exponent_p < 0:
        return c
    exponent = max(exponent_p, ec)
    total = sticky(product, exponent - exponent_p) * (-1 if sa ^ sb else 1)
    total += sticky(mc, exponent - ec) * (-1 if sc else 1)
    if total == 0:
        return 0.0
    sign, size = total < 0, abs(total)
    growth = size.bit_length() - 27
    size = size << -growth if growth <= 0 else (size >> growth) | (size & 1)
    pattern = ((exponent + growth) << 23) + ((size >> 3) & 0x7FFFFF)
    pattern += ((size & 7) + (pattern & 1)) > 4
    return struct.unpack("f", struct.pack("I", pattern | (sign << 31)))[0]


def test_multiply_add_is_wormholes() -> None:
    generator = torch.Generator().manual_seed(1)
    a, b, c = torch.randn(3, 3000, generator=generator)
    nearly = torch.rand(3000, generator=generator) < 0.5  # half of them cancel almost completely
    c = torch.where(nearly, -a * b * (1 + torch.randint(-3, 4, (3000,), generator=generator) * 2.0**-23), c)
    expected = torch.tensor(
        [partially_fused(*triple) for triple in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    )
    assert torch.equal(EXACT.mad(a, b, c), expected)
    fused = (a.double() * b.double() + c.double()).float()
    assert not torch.equal(fused, expected), "the cases do not tell Wormhole's from a fused multiply-add"


def test_multiply_add_specials() -> None:
    def mad(*operands: float) -> float:
        return EXACT.mad(*(torch.tensor([operand]) for operand in operands)).item()

    assert mad(1e-30, 1e-30, 1.0) == 1.0
    assert mad(1e30, 1e30, 0.0) == math.inf
    assert math.isnan(mad(math.inf, 0.0, 1.0)) and math.isnan(mad(1e30, 1e30, -math.inf))
    assert mad(1e-20, 1e-20, 0.0) == 0.0
    assert math.copysign(1.0, mad(-1.0, 0.0, 0.0)) == 1.0


def test_rounding_and_truncation_into_a_bfloat16_register() -> None:
    x = torch.tensor([1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 1 + 2.0**-7 - 2.0**-20])
    assert EXACT.round(x).tolist() == [1 + 2.0**-7] * 3  # a tie goes away from zero
    assert EXACT.round_even(x).tolist() == [1.0, 1 + 2.0**-7, 1 + 2.0**-7]
    assert EXACT.store(x).tolist() == [1.0] * 3
    assert WIDE.round(x) is x and WIDE.store(x) is x


def test_shift_uses_five_bits_of_its_amount() -> None:
    value = torch.tensor([0x800000] * 4, dtype=torch.int32)
    shifted = lanes.shift(value, torch.tensor([1, -23, -33, 32], dtype=torch.int32))
    assert shifted.tolist() == [0x1000000, 1, 0x400000, 0x800000]


def test_nearest_integer_goes_away_from_zero_and_saturates() -> None:
    x = torch.tensor([0.5, -0.5, 0.49999997, 2.5, 1e9, -1e9])
    assert lanes.to_nearest_integer(x, 127).tolist() == [1, -1, 0, 3, 127, -127]


def test_what_is_too_large_for_a_whole_number_is_the_smallest_on_every_machine() -> None:
    x = torch.tensor([2.9, -2.9, -0.0, 2.0**31, -(2.0**31), 3e38, -3e38, math.inf, -math.inf, math.nan])
    assert lanes.whole(x).tolist() == [2, -2, 0, *[-(2**31)] * 7]


ANY = (-4.0, 4.0)
REFERENCES = {
    "abs": (torch.abs, ANY),
    "acos": (torch.acos, (-0.95, 0.95)),
    "acosh": (torch.acosh, (1.1, 9.0)),
    "asin": (torch.asin, (-0.95, 0.95)),
    "asinh": (torch.asinh, ANY),
    "atan": (torch.atan, ANY),
    "atanh": (torch.atanh, (-0.95, 0.95)),
    "cbrt": (lambda x: x.sign() * x.abs() ** (1 / 3), ANY),
    "ceil": (torch.ceil, ANY),
    "celu": (functional.celu, ANY),
    "cos": (torch.cos, ANY),
    "cosh": (torch.cosh, ANY),
    "deg2rad": (torch.deg2rad, ANY),
    "elu": (functional.elu, ANY),
    "erf": (torch.erf, ANY),
    "erfc": (torch.erfc, (-4.0, 2.0)),
    "erfinv": (torch.erfinv, (-0.9, 0.9)),
    "exp": (torch.exp, ANY),
    "exp2": (torch.exp2, ANY),
    "expm1": (torch.expm1, ANY),
    "floor": (torch.floor, ANY),
    "frac": (torch.frac, ANY),
    "gelu": (functional.gelu, (-2.5, 4.0)),
    "gelu_tanh": (lambda x: functional.gelu(x, approximate="tanh"), (-2.5, 4.0)),
    "hardmish": (lambda x: x * (x / 2 + 1).clamp(0, 1), ANY),
    "hardshrink": (functional.hardshrink, ANY),
    "hardsigmoid": (functional.hardsigmoid, ANY),
    "hardtanh": (functional.hardtanh, ANY),
    "i0": (torch.i0, (-3.0, 3.0)),
    "i1": (torch.special.i1, (-12.0, 12.0)),
    "identity": (lambda x: x, ANY),
    "lgamma": (torch.lgamma, (3.0, 9.0)),
    "log": (torch.log, (1.5, 9.0)),
    "log10": (torch.log10, (1.5, 9.0)),
    "log1p": (torch.log1p, (0.5, 9.0)),
    "log2": (torch.log2, (1.5, 9.0)),
    "mish": (functional.mish, (-2.0, 9.0)),
    "neg": (torch.neg, ANY),
    "rad2deg": (torch.rad2deg, ANY),
    "reciprocal": (torch.reciprocal, (0.1, 4.0)),
    "relu": (torch.relu, ANY),
    "relu6": (functional.relu6, (-2.0, 9.0)),
    "round": (torch.round, ANY),
    "rsqrt": (torch.rsqrt, (0.1, 9.0)),
    "selu": (functional.selu, ANY),
    "sigmoid": (torch.sigmoid, ANY),
    "sigmoid_accurate": (torch.sigmoid, ANY),
    "sign": (torch.sign, ANY),
    "silu": (functional.silu, (-2.0, 4.0)),
    "sin": (torch.sin, ANY),
    "sinh": (torch.sinh, ANY),
    "softplus": (functional.softplus, (-3.0, 4.0)),
    "softshrink": (functional.softshrink, ANY),
    "softsign": (functional.softsign, ANY),
    "sqrt": (torch.sqrt, (0.1, 9.0)),
    "square": (torch.square, ANY),
    "tan": (torch.tan, (-1.3, 1.3)),
    "tanh": (torch.tanh, ANY),
    "tanhshrink": (functional.tanhshrink, ANY),
    "trunc": (torch.trunc, ANY),
}
# Kernels whose own approximation is coarse even with float32: relative error allowed then.
COARSE = {"erfc": 1e-2, "erfinv": 2e-2, "i0": 1e-4, "selu": 1e-5, "softplus": 1e-3, "gelu": 1e-4, "tanhshrink": 1e-5}


def worst(name: str, unit: VectorUnit) -> float:
    reference, (low, high) = REFERENCES[name]
    x = torch.linspace(low, high, 1999).to(torch.bfloat16).float()
    y, expected = run_unary(name, x, unit=unit), reference(x.double())
    return float(((y - expected).abs() / expected.abs().clamp(min=0.05)).max())


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_bfloat16_kernel_is_good_to_a_bfloat16(name: str) -> None:
    assert worst(name, EXACT) < {"erfinv": 3e-2, "erfc": 1.2e-2, "softplus": 1.2e-2}.get(name, 9e-3)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_float32_kernel_is_good_to_a_float32(name: str) -> None:
    assert worst(name, WIDE) < COARSE.get(name, 3e-6)


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_quick_arithmetic_gives_nearly_the_same(name: str) -> None:
    _, (low, high) = REFERENCES[name]
    x = torch.linspace(low, high, 999).to(torch.bfloat16).float()
    exact, quick = (run_unary(name, x, unit=VectorUnit(exact=flag)) for flag in (True, False))
    assert float((exact - quick).abs().max()) <= 2.0**-6 * float(exact.abs().max())


@pytest.mark.parametrize(
    ("name", "params", "reference"),
    [
        ("leaky_relu", (0.1,), lambda x: functional.leaky_relu(x, 0.1)),
        ("clamp", (-0.5, 0.75), lambda x: x.clamp(-0.5, 0.75)),
        ("relu_max", (2.0,), lambda x: x.clamp(0, 2)),
        ("relu_min", (0.5,), lambda x: x.clamp(min=0.5)),
        ("threshold", (0.5, 2.0), lambda x: torch.where(x <= 0.5, 2.0, x)),
        ("pow", (3.0,), lambda x: x**3),
        ("rpow", (2.5,), lambda x: 2.5**x),
        ("rdiv", (3.0,), lambda x: 3.0 / x),
        ("rsub", (1.5,), lambda x: 1.5 - x),
        ("fmod_unary", (0.75,), lambda x: torch.fmod(x, 0.75)),
        ("remainder_unary", (0.75,), lambda x: torch.remainder(x, 0.75)),
        ("unary_gt", (0.5,), lambda x: (x > 0.5).double()),
        ("heaviside", (0.25,), lambda x: (x > 0).double()),
    ],
)
def test_kernels_with_parameters(name: str, params: tuple[float, ...], reference) -> None:  # type: ignore[no-untyped-def]
    x = (torch.linspace(-4, 4, 400) + 0.003).to(torch.bfloat16).float()
    x = x[x != 0]
    y, expected = run_unary(name, x, *params), reference(x.double())
    assert float(((y - expected).abs() / expected.abs().clamp(min=0.5)).max()) < 9e-3


def test_fractional_power_of_positive_numbers() -> None:
    x = torch.linspace(0.1, 9, 500).to(torch.bfloat16).float()
    for unit, limit in ((EXACT, 9e-3), (WIDE, 1e-6)):
        y = run_unary("pow", x, 2.5, unit=unit)
        assert float((y / x.double() ** 2.5 - 1).abs().max()) < limit


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("add", torch.add),
        ("sub", torch.sub),
        ("mul", torch.mul),
        ("div", torch.div),
        ("maximum", torch.maximum),
        ("minimum", torch.minimum),
        ("fmod", torch.fmod),
        ("logaddexp", torch.logaddexp),
        ("ge", torch.ge),
        ("squared_difference", lambda a, b: (a - b) ** 2),
    ],
)
def test_binary_kernels(name: str, reference) -> None:  # type: ignore[no-untyped-def]
    generator = torch.Generator().manual_seed(2)
    a, b = (torch.randn(2, 2000, generator=generator) * 2).to(torch.bfloat16).float()
    b = torch.where(b.abs() < 0.1, 0.5, b)
    expected = reference(a.double(), b.double()).double()
    for unit, limit in ((EXACT, 1.2e-2), (WIDE, 2e-5)):
        y = run_binary(name, a, b, unit=unit)
        assert float(((y - expected).abs() / expected.abs().clamp(min=0.5)).max()) < limit


def test_division_by_zero() -> None:
    a, b = torch.tensor([1.0, -1.0, 0.0]), torch.zeros(3)
    quotient = run_binary("div", a, b)
    assert quotient[:2].tolist() == [math.inf, -math.inf] and math.isnan(quotient[2].item())


def test_approximate_modes_are_coarse_but_close() -> None:
    approx = VectorUnit(approx=True)
    x = torch.linspace(-3, 3, 600).to(torch.bfloat16).float()
    for name, limit in (("exp", 0.04), ("sigmoid", 0.13), ("tanh", 0.02), ("gelu", 0.03)):
        y, exact = run_unary(name, x, unit=approx), run_unary(name, x)
        distance = (y - exact).abs() / exact.abs().clamp(min=1.0)
        assert 0.003 < float(distance.max()) < limit, name


@pytest.mark.parametrize("name", sorted({*unary_ops()} - {"multigammaln", "digamma", "polygamma"}))
def test_every_kernel_keeps_shape_and_register_format(name: str) -> None:
    needed = {"relu_max": 1, "relu_min": 1, "threshold": 2, "rdiv": 1, "rpow": 1, "pow": 1, "heaviside": 1, "rsub": 1}
    count = needed.get(name, 1 if name.startswith("unary_") or name.endswith("_unary") else 0)
    x = torch.linspace(0.1, 0.9, 96).reshape(3, 32).to(torch.bfloat16).float()
    y = run_unary(name, x, *([1.5] * count))
    assert y.shape == x.shape and y.dtype is torch.float32
    assert torch.equal(y.to(torch.bfloat16).float(), y)


def test_names_of_binary_kernels() -> None:
    assert {"add", "sub", "mul", "div", "pow", "maximum", "minimum", "eq", "logical_and"} <= set(binary_ops())
