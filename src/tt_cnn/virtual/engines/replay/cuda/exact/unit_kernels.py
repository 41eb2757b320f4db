# SPDX-License-Identifier: Apache-2.0
"""Single instructions of the card's units and its roundings, in Triton: one pass where torch takes dozens.

The rules are those of `add` and `mul` in `numerics/matrix_unit.py`, of `numerics/vector_unit/unit.py` and of
`numerics/packer.py`, bit for bit but for the sign and the payload of NaN, which nothing reads.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

from tt_cnn.virtual.engines.replay.cuda.exact.product_kernels import (
    EXPONENT,
    WHOLE,
    bits_of,
    float_of,
    nearest_away,
    part_of_w,
    part_of_x,
    power,
    rounded_away,
)

MAGNITUDE = tl.constexpr(0x7FFFFFFF)
SIGN = tl.constexpr(-0x80000000)
ALIGNED_BITS = tl.constexpr(26)
QUANTA = tl.constexpr((260 << 23) - (1 << 32))
"""As a number of 32 bits, where differences wrap around."""


@triton.jit
def is_finite(x):
    return (bits_of(x) & EXPONENT) != EXPONENT


@triton.jit
def exponent_of(x):
    return (bits_of(x) >> 23) & 0xFF


@triton.jit
def without_denormals(x):
    """Denormals and -0 become +0."""
    return tl.where((bits_of(x) & EXPONENT) == 0, 0.0, x)


@triton.jit
def with_mantissa(x, KEPT: tl.constexpr):
    """Rounded to so many bits behind the leading one, ties away from zero; NaN becomes infinite."""
    bits = bits_of(tl.where(x != x, float("inf"), x))
    return float_of((bits + (1 << (22 - KEPT))) & (-1 << (23 - KEPT)))


@triton.jit
def one_rounded(x, KIND: tl.constexpr, KEPT: tl.constexpr):
    if KIND == "to_bfloat16":
        y = without_denormals(with_mantissa(x, 7))
    elif KIND == "round_away":
        y = rounded_away(x)
    elif KIND == "round_even":
        bits = bits_of(x)
        y = tl.where(x != x, x, float_of((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000))
    elif KIND == "stored":
        y = float_of(bits_of(x) & -0x10000)
        y = tl.where((bits_of(y) & EXPONENT) == 0, 0.0, y)
    elif KIND == "cut":
        y = float_of(bits_of(x) & (-1 << (23 - KEPT)))
    else:
        tl.static_assert(KIND == "flush_denormals")
        bits = bits_of(x)
        y = float_of(tl.where((bits & EXPONENT) == 0, bits & SIGN, bits))
    return y


@triton.jit
def roundings(x, y, size, KIND: tl.constexpr, KEPT: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    tl.store(y + i, one_rounded(tl.load(x + i, mask=known, other=0.0), KIND, KEPT), mask=known)


@triton.jit
def blocks(x, y, count, PRECISE: tl.constexpr, CUT: tl.constexpr, BLOCK: tl.constexpr):
    """Blocks of 16 numbers to magnitudes of 7 bits, of which CUT are cut off then; PRECISE rounds once."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    cells = i[:, None] * 16 + tl.arange(0, 16)[None, :]
    known = (i < count)[:, None]
    v = with_mantissa(tl.load(x + cells, mask=known, other=0.0), 7 if PRECISE else 6)
    top = tl.max(bits_of(v) & MAGNITUDE, axis=1) & EXPONENT
    top = tl.minimum(tl.maximum(top, 8 << 23), 254 << 23)[:, None]
    whole = v * (float_of(-top + QUANTA) * (1.0 + 2.0**-20))
    whole = (whole + WHOLE) - WHOLE
    if PRECISE:
        whole = tl.minimum(tl.maximum(whole, -127.0), 127.0)
        whole = tl.where(is_finite(v), whole, v)
    if CUT > 0:
        low = tl.abs(whole) * (1.0 / (1 << CUT))
        whole = tl.where(whole < 0, -tl.floor(low), tl.floor(low)) * (1 << CUT)
    tl.store(y + cells, whole * float_of(top - (6 << 23)) + 0.0, mask=known)


@triton.jit
def repeated(x, i, period, known, SINGLE: tl.constexpr):
    """Numbers that come again after a period; of a SINGLE one, everywhere the same."""
    if SINGLE:
        return tl.load(x + i * 0, mask=known, other=0.0)
    return tl.load(x + i % period, mask=known, other=0.0)


@triton.jit
def aligned_sums(
    a, b, y, size, a_period, b_period, A_SINGLE: tl.constexpr, B_SINGLE: tl.constexpr, FP32: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    one = repeated(a, i, a_period, known, A_SINGLE)
    other = repeated(b, i, b_period, known, B_SINGLE)
    ideal = one + other
    top = tl.maximum(exponent_of(one), exponent_of(other))
    up = power(137 - top)
    total = (nearest_away(one.to(tl.float64) * up) + nearest_away(other.to(tl.float64) * up)) * power(top - 137)
    result = total.to(tl.float32)
    if not FP32:
        result = rounded_away(result)
    tl.store(y + i, tl.where(is_finite(ideal), result, ideal), mask=known)


@triton.jit
def products(
    a, b, y, size, a_period, b_period, A_SINGLE: tl.constexpr, B_SINGLE: tl.constexpr, PHASES: tl.constexpr,
    FP32: tl.constexpr, EXACT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Source A times source B, the register being zero before."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    one = repeated(a, i, a_period, known, A_SINGLE)
    other = repeated(b, i, b_period, known, B_SINGLE)
    exponent = exponent_of(one) + exponent_of(other) - 127
    register = tl.zeros((BLOCK,), dtype=tl.float32)
    for phase in tl.static_range(PHASES):
        product = part_of_w(bits_of(one), phase % 2) * part_of_x(bits_of(other), phase // 2)
        if FP32:
            register = register + product
        elif EXACT:
            top = tl.maximum(exponent_of(register), exponent - 5 * (phase % 2) - 7 * (phase // 2))
            up = power(137 - top)
            total = nearest_away(register.to(tl.float64) * up) + tl.floor(product.to(tl.float64) * up + 0.5)
            register = rounded_away((total * power(top - 137)).to(tl.float32))
        else:
            register = rounded_away(register + product)
    ideal = one * other
    tl.store(y + i, tl.where(is_finite(ideal), register, ideal), mask=known)


@triton.jit
def aligned(x, scale):
    """A whole number whose lowest bit remembers what was cut off."""
    scaled = tl.abs(x * scale)
    whole = scaled.to(tl.int32)
    lost = (whole != 0) & (whole.to(tl.float64) != scaled)
    magnitude = whole | lost.to(tl.int32)
    return tl.where(x < 0, -magnitude, magnitude)


@triton.jit
def multiply_adds(
    a, b, c, y, size, a_period, b_period, c_period, A_SINGLE: tl.constexpr, B_SINGLE: tl.constexpr,
    C_SINGLE: tl.constexpr, A_VECTOR: tl.constexpr, B_VECTOR: tl.constexpr, C_VECTOR: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """a * b + c by the vector unit; denormals count as zero in vectors, not in constants."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    one = repeated(a, i, a_period, known, A_SINGLE)
    other = repeated(b, i, b_period, known, B_SINGLE)
    last = repeated(c, i, c_period, known, C_SINGLE)
    one = without_denormals(one) if A_VECTOR else one
    other = without_denormals(other) if B_VECTOR else other
    last = without_denormals(last) if C_VECTOR else last
    finite = is_finite(one) & is_finite(other)
    product_exponent = exponent_of(one) + exponent_of(other) - 254
    exponent = tl.maximum(product_exponent, exponent_of(last) - 127)
    product = one.to(tl.float64) * other.to(tl.float64)
    addend = last.to(tl.float64)
    product = tl.where((product_exponent < -127) & finite, 0.0, product)
    scale = power(-exponent + ALIGNED_BITS)
    tame = (product_exponent < 128) & is_finite(last) & finite
    total = aligned(tl.where(tame, product, 0.0), scale) + aligned(tl.where(tame, addend, 0.0), scale)
    magnitude = tl.abs(total)
    magnitude = tl.where((magnitude >> (ALIGNED_BITS + 2)) != 0, magnitude & ~2, magnitude)  # a bit that is forgotten
    whole = tl.where(total < 0, -magnitude, magnitude).to(tl.float64)
    value = (whole * power(exponent - ALIGNED_BITS)).to(tl.float32)
    value = tl.where(product == 0.0, last, value)
    infinite = tl.where((bits_of(one) ^ bits_of(other)) < 0, float("-inf"), float("inf")).to(tl.float64)
    product = tl.where((product_exponent >= 128) & finite, infinite, product)
    value = tl.where(tame, value, (product + addend).to(tl.float32))
    tl.store(y + i, without_denormals(value), mask=known)


@triton.jit
def look_up(results, x, y, size, BLOCK: tl.constexpr):
    """A function of a bfloat16 register, whose 65536 results are known."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = i < size
    place = (bits_of(tl.load(x + i, mask=known, other=0.0)) >> 16) & 0xFFFF
    tl.store(y + i, float_of(tl.load(results + place, mask=known, other=0).to(tl.int32) << 16), mask=known)
