# SPDX-License-Identifier: Apache-2.0
"""Products as the card's matrix unit adds them up, in Triton, bit for bit as `numerics/matrix_unit.py` defines them.

`followed` is launched twice. A survey of the operands says which launch computes; the other one ends at once, so that
the host need not look:

* ORDINARY, for finite numbers whose sums stay finite: all is done in float32. Mantissas of a product have 12 bits, so
  that it is exact; a fused multiply-add aligns it, rounds it to a whole number and adds it to those before, because the
  sum starts at 1.5 * 2 ** 23, where float32 holds whole numbers alone. What makes ties go away from zero or up is a
  factor, or a summand, too small to do anything else.
* Anything else: the definition word for word, in float64 where it is.

Exponents stay where they are in a number's bits, so that sums, maxima and powers of two need no shifts.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl

EXPONENT = tl.constexpr(0x7F800000)
ONE = tl.constexpr(127 << 23)
ADDER = tl.constexpr(10 << 23)
TWICE_AND_ADDER = tl.constexpr((264 << 23) - (1 << 32))
"""As a number of 32 bits, where sums wrap around."""
LEAST = tl.constexpr(24 << 23)
"""The smallest exponent of an alignment."""
SURE = tl.constexpr(200)
"""The largest exponent of what is multiplied or added where all sums are known to stay finite."""
WHOLE = tl.constexpr(12582912.0)
TIES = tl.constexpr(1.0 + 2.0**-20)
SURVEYORS = tl.constexpr(256)
FLOAT32 = tl.constexpr(0)


@triton.jit
def bits_of(x):
    return x.to(tl.int32, bitcast=True)


@triton.jit
def float_of(bits):
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def surveyed(x, size, first, NARROW: tl.constexpr, BLOCK: tl.constexpr):
    """The largest exponent; 255 too where a number is denormal or has more bits than a source register holds, if it
    must be NARROW."""
    most = tl.zeros((BLOCK,), dtype=tl.int32)
    for at in range(first * BLOCK, size, SURVEYORS * BLOCK):
        i = at + tl.arange(0, BLOCK)
        bits = bits_of(tl.load(x + i, mask=i < size, other=0.0))
        exponent = (bits >> 23) & 0xFF
        if NARROW:
            exponent = tl.where((bits & 0x1FFF) != 0, 255, exponent)
        most = tl.maximum(most, exponent)
    return tl.max(most, axis=0)


@triton.jit(do_not_specialize=["x_size", "w_size", "start_size"])
def survey(
    x, w, start, found, x_size, w_size, start_size, STARTS: tl.constexpr, NARROW: tl.constexpr, BLOCK: tl.constexpr
):
    """What each program has found in its share of the three: `found` has a row for each."""
    program = tl.program_id(0)
    tl.store(found + program, surveyed(x, x_size, program, False, BLOCK))
    tl.store(found + SURVEYORS + program, surveyed(w, w_size, program, False, BLOCK))
    if STARTS:
        tl.store(found + 2 * SURVEYORS + program, surveyed(start, start_size, program, NARROW, BLOCK))


@triton.jit
def is_ordinary(found, STARTS: tl.constexpr):
    programs = tl.arange(0, SURVEYORS)
    x = tl.max(tl.load(found + programs), axis=0)
    w = tl.max(tl.load(found + SURVEYORS + programs), axis=0)
    ordinary = (x < 255) & (w < 255) & (x + w - 127 <= SURE)
    if STARTS:
        ordinary = ordinary & (tl.max(tl.load(found + 2 * SURVEYORS + programs), axis=0) <= SURE)
    return ordinary


@triton.jit
def part_of_x(bits, low):
    """7 significant bits of source B, or the next 4."""
    high = float_of(bits & -0x20000)
    return tl.where(low, float_of(bits & -0x2000) - high, high)


@triton.jit
def part_of_w(bits, low):
    """5 significant bits of source A, or the next 5."""
    high = float_of(bits & -0x80000)
    return tl.where(low, float_of(bits & -0x4000) - high, high)


@triton.jit
def x_at(x, offset, offsets, k, i: tl.constexpr, ADJACENT: tl.constexpr):
    """Bits of a number of each window: the i-th of its group. Zero where the inner dimension is filled up."""
    place = offset if ADJACENT else tl.load(offsets + k + i)
    there = (place >> 31) ^ -1  # all bits, or none
    return bits_of(tl.load(x + (place & there) + (i if ADJACENT else 0))) & there


@triton.jit
def w_at(w, columns, k, known):
    return bits_of(tl.load(w + k * columns, mask=known, other=0.0))


@triton.jit
def scale_of(exponent, ORDINARY: tl.constexpr):
    """What aligns products to this exponent."""
    if ORDINARY:
        return float_of(-exponent + TWICE_AND_ADDER) * TIES
    return float_of(tl.minimum(tl.maximum(264 - exponent, 1), 254) << 23) * TIES


@triton.jit
def group_summed(
    x, w, offsets, columns, k, known, low_w, low_x, ADJACENT: tl.constexpr, ORDINARY: tl.constexpr,
    SHARES: tl.constexpr, BM: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Sums of 8 aligned products of each result in whole numbers of their quantum, and the exponent that they were
    aligned to: in its place among the bits where it is ORDINARY."""
    down: tl.constexpr = 0 if ORDINARY else 23
    offset = tl.load(offsets + k)
    exponent = tl.full((SHARES, BM, LANES), -ONE, tl.int32)
    for i in tl.static_range(8):
        own = (x_at(x, offset, offsets, k, i, ADJACENT) & EXPONENT) >> down
        others = (w_at(w, columns, k + i, known) & EXPONENT) >> down
        exponent = tl.maximum(exponent, own[None, :, None] + (others - (ONE >> down))[:, None, :])
    exponent = tl.maximum(exponent - (((5 * low_w + 7 * low_x) << 23) >> down), LEAST >> down)
    scale = scale_of(exponent, ORDINARY)
    total = tl.full((SHARES, BM, LANES), WHOLE if ORDINARY else 0.0, tl.float32)
    for i in tl.static_range(8):
        own = part_of_x(x_at(x, offset, offsets, k, i, ADJACENT), low_x != 0)
        others = part_of_w(w_at(w, columns, k + i, known), low_w != 0)
        product = own[None, :, None] * others[:, None, :]
        if ORDINARY:
            total = tl.fma(product, scale, total)
        else:
            aligned = product * scale
            total += tl.where(tl.abs(aligned) < 4194304.0, (aligned + WHOLE) - WHOLE, aligned)
    return (total - WHOLE if ORDINARY else total), exponent


@triton.jit
def rounded_away(x):
    """To bfloat16, ties away from zero."""
    rounded = float_of((bits_of(x) + 0x8000) & -0x10000)
    rounded = tl.where((bits_of(rounded) & EXPONENT) == 0, 0.0, rounded)
    return tl.where(x != x, x, rounded)


@triton.jit
def power(exponent):
    """2 ** exponent in float64."""
    return ((exponent.to(tl.int64) + 1023) << 52).to(tl.float64, bitcast=True)


@triton.jit
def nearest_away(x):
    magnitude = tl.floor(tl.abs(x) + 0.5)
    return tl.where(x < 0, magnitude * -1.0, magnitude)  # what rounds to nothing keeps its sign


@triton.jit
def added(register, first, second, one, other, FP32: tl.constexpr, ORDINARY: tl.constexpr):
    """The register after two groups' sums, whose quanta have the exponents `one` and `other`."""
    if ORDINARY:
        if FP32:
            low = (first * float_of(one - ADDER)).to(tl.float64)
            high = (second * float_of(other - ADDER)).to(tl.float64)
            result = (register.to(tl.float64) + (low + high)).to(tl.float32)
        else:
            top = tl.maximum(tl.maximum(one, other), bits_of(register) & EXPONENT)
            up = float_of(-top + TWICE_AND_ADDER)
            total = tl.fma(register * TIES, up, WHOLE)
            total = tl.fma((first + 0.25) * float_of(one - ADDER), up, total)
            total = tl.fma((second + 0.25) * float_of(other - ADDER), up, total)
            sums = bits_of((total - WHOLE) * float_of(top - ADDER))
            result = float_of((sums + 0x8000) & -0x10000)
    else:
        low = first.to(tl.float64)
        high = second.to(tl.float64)
        if FP32:
            result = (register.to(tl.float64) + (low * power(one - 137) + high * power(other - 137))).to(tl.float32)
        else:
            top = tl.maximum(tl.maximum(one, other), (bits_of(register) >> 23) & 0xFF)
            total = nearest_away(register.to(tl.float64) * power(137 - top))
            total += tl.floor(low * power(one - top) + 0.5) + tl.floor(high * power(other - top) + 0.5)
            result = rounded_away((total * power(top - 137)).to(tl.float32))
    return result


@triton.jit
def tile_added(
    register, x, w, offsets, columns, k, known, phases, FP32: tl.constexpr, ADJACENT: tl.constexpr,
    ORDINARY: tl.constexpr, SHARES: tl.constexpr, BM: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """The register after 32 products of each result: both steps in each of the phases."""
    for number in range(2 * phases):
        low_w = (number >> 1) & 1
        low_x = number >> 2
        step = k + (number & 1) * 16
        first, one = group_summed(
            x, w, offsets, columns, step, known, low_w, low_x, ADJACENT, ORDINARY, SHARES, BM, LANES
        )
        second, other = group_summed(
            x, w, offsets, columns, step + 8, known, low_w, low_x, ADJACENT, ORDINARY, SHARES, BM, LANES
        )
        register = added(register, first, second, one, other, FP32, ORDINARY)
    return register


@triton.jit
def packed(register, PARTIALS: tl.constexpr):
    """As the packer stores it between blocks: float32, or bfloat16 rounded with ties away from zero."""
    if PARTIALS == FLOAT32:
        return register
    finite = tl.where(register != register, float("inf"), register)
    stored = float_of((bits_of(finite) + 0x8000) & -0x10000)
    return tl.where((bits_of(stored) & EXPONENT) == 0, 0.0, stored)


@triton.jit
def reloaded(stored, PARTIALS: tl.constexpr, WHOLE_SUMS: tl.constexpr):
    """As it comes back into the register."""
    if WHOLE_SUMS:
        return stored
    bits = bits_of(stored)
    bits = tl.where((bits & EXPONENT) == 0, bits & -0x80000000, bits)
    return float_of(bits & -0x2000 if PARTIALS == FLOAT32 else bits)


@triton.jit
def added_by_packer(stored, register, PARTIALS: tl.constexpr):
    """What lies in L1 after the packer has added a block's sum: in bfloat16 rounded to nearest even."""
    total = stored + packed(register, PARTIALS)
    if PARTIALS == FLOAT32:
        return total
    bits = bits_of(total)
    return tl.where(total != total, total, float_of((bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000))


@triton.jit(do_not_specialize=["rows", "depth", "blocks", "results", "across", "image", "line", "pixel", "phases"])
def followed(
    x, w, start, y, offsets, found, rows, columns, depth, blocks, results, across, image, line, pixel,
    phases, STARTS: tl.constexpr, FP32: tl.constexpr, PARTIALS: tl.constexpr, PACKER: tl.constexpr,
    BIAS: tl.constexpr, WHOLE_SUMS: tl.constexpr, ADJACENT: tl.constexpr, ORDINARY: tl.constexpr, SHARES: tl.constexpr,
    BM: tl.constexpr, LANES: tl.constexpr,
):  # fmt: skip
    """Register values after the last of the blocks of `depth` rows. Window r of the image starts `image`, `line` and
    `pixel` numbers further for each image, line and pixel before it; its numbers are at `offsets` from there, those
    below 0 being zero. With ADJACENT, groups of 8 lie side by side, or all of them are zero.

    A program has BM rows and SHARES times LANES columns, in this order: so Triton gives a thread rows and columns of
    its own, of which it takes apart each number once."""
    if is_ordinary(found, STARTS) == ORDINARY:
        tiles = tl.cdiv(columns, SHARES * LANES)
        row = (tl.program_id(0) // tiles) * BM + tl.arange(0, BM)
        column = (tl.arange(0, SHARES) * LANES)[:, None] + tl.arange(0, LANES)[None, :]
        column += (tl.program_id(0) % tiles) * (SHARES * LANES)
        known = column < columns
        inside = tl.minimum(row, rows - 1)
        place = inside % results
        windows = x + (inside // results * image + place // across * line + place % across * pixel)
        matrix = w + column
        cells = (row * columns)[None, :, None] + column[:, None, :]
        there = (row < rows)[None, :, None] & known[:, None, :]
        register = tl.zeros((SHARES, BM, LANES), dtype=tl.float32)
        stored = register
        if STARTS:
            register = tl.load(start + cells, mask=there, other=0.0)
        for block in range(0, blocks):
            if block > 0:
                if not PACKER:
                    register = reloaded(stored, PARTIALS, WHOLE_SUMS)
                elif BIAS:
                    register = tl.zeros((SHARES, BM, LANES), dtype=tl.float32)
                else:
                    register = tl.where(block == blocks - 1, reloaded(stored, PARTIALS, WHOLE_SUMS), 0.0)
            for k in range(block * depth, block * depth + depth, 32):
                register = tile_added(
                    register,
                    windows,
                    matrix,
                    offsets,
                    columns,
                    k,
                    known,
                    phases,
                    FP32,
                    ADJACENT,
                    ORDINARY,
                    SHARES,
                    BM,
                    LANES,
                )
            if PACKER:  # noqa: SIM102  (Triton looks at what is constant only by itself)
                if block > 0:
                    total = added_by_packer(stored, register, PARTIALS)
                    register = total if BIAS else tl.where(block == blocks - 1, register, total)
            stored = packed(register, PARTIALS)
        tl.store(y + cells, register, mask=there)
