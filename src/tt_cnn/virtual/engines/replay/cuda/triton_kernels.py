# SPDX-License-Identifier: Apache-2.0
"""The kernels, in Triton. Images are pixels of channels with any stride between pixels, rows and images.

A convolution is a product of matrices whose left one is read from the image as it goes: a row for each pixel of the
result, a column for each channel of each place of the window. Sums are kept in float32, so are the bias, the
activation and the addition that follow, and only what is stored is rounded.

Images and weights may hold e4m3 numbers, of 8 bits, in units of a scale: sums are multiplied by both scales, and what
is stored so is multiplied by `factor`, the reciprocal of its own. Hopper multiplies them where neighbours along the sum
lie beside each other in both matrices, so such weights are stored a column after the other. It adds up such products
with fewer bits than float32 has: sums differ by some thousandths, as e4m3 numbers themselves do by some hundredths.

The convolution's parameters are passed by name, out of the groups in `convolution_arguments.py`. Here they stand
singly: Triton cannot unpack a tuple of constants before its pull request 10451.
"""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@triton.jit
def activate(v, ACTIVATION: tl.constexpr, a, b):
    """ACTIVATION is a name of the graph's; `a` and `b` are its parameters. Triton's minima and maxima give the other
    number for NaN unless asked not to."""
    if ACTIVATION == "Relu":
        v = tl.maximum(v, 0.0, tl.PropagateNan.ALL)
    elif ACTIVATION == "leaky_relu":
        v = tl.where(v > 0, v, v * a)
    elif ACTIVATION == "clip":
        v = tl.minimum(tl.maximum(v, a, tl.PropagateNan.ALL), b, tl.PropagateNan.ALL)
    elif ACTIVATION == "Sigmoid":
        v = 1.0 / (1.0 + tl.exp(-v))
    elif ACTIVATION == "silu":
        v = v / (1.0 + tl.exp(-v))
    elif ACTIVATION == "mish":  # x tanh(log(1 + e^x)), without the logarithm
        e = tl.exp(tl.minimum(v, 20.0))
        n = e * (e + 2.0)
        v = v * (n / (n + 2.0))
    elif ACTIVATION == "Exp":
        v = tl.exp(v)
    elif ACTIVATION == "Tanh":
        far = 1.0 - 2.0 / (1.0 + tl.exp(2.0 * v))
        square = v * v
        near = -5.70498872745e-3 * square + 2.06390887954e-2
        near = (near * square - 5.37397155531e-2) * square + 1.33314422036e-1
        near = (near * square - 3.33332819422e-1) * square * v + v
        v = tl.where(square < 0.390625, near, far)  # near 0 the difference of two numbers near 1 is too coarse
    return v


@triton.jit
def stored(v, y, factor):
    """As `y` holds it; float16 and e4m3 take what is too large for them as their largest. NaN stays, and so does an
    infinity in float16; e4m3 has none."""
    if y.dtype.element_ty == tl.float16:
        limited = tl.minimum(tl.maximum(v, -65504.0, tl.PropagateNan.ALL), 65504.0, tl.PropagateNan.ALL)
        v = tl.where(tl.abs(v) == float("inf"), v, limited)
    elif y.dtype.element_ty == tl.float8e4nv:
        v = tl.minimum(tl.maximum(v * factor, -448.0, tl.PropagateNan.ALL), 448.0, tl.PropagateNan.ALL)
    return v.to(y.dtype.element_ty)


@triton.jit
def prefetch(pointers):
    """Ask for the lines behind pointers to be brought into the second-level cache."""
    tl.inline_asm_elementwise(
        "prefetch.global.L2 [$1]; mov.u32 $0, 0;",
        "=r,l",
        [pointers.to(tl.int64)],
        dtype=tl.int32,
        is_pure=False,
        pack=1,
    )


UNSPECIALIZED = (
    "a", "b", "tail_bias", "tail_a", "tail_b", "factor", "M", "OW", "OHW", "H", "W", "SH", "SW", "TOP", "LEFT", "DH",
    "DW", "split_k",
)  # fmt: skip
"""Numbers that the convolution is not compiled again for."""


@triton.jit(do_not_specialize=UNSPECIALIZED)
def convolution(
    x, w, scales, bias, other, y, eight, partial, counters, tail, a, b, tail_bias, tail_a, tail_b, factor,
    M, OW, OHW, H, W, C, OC, width, w_depth, w_column, SH, SW, TOP, LEFT, DH, DW, split_k,
    x_image, x_row, x_pixel, x_channel, other_image, other_row, other_pixel, y_image, y_row, y_pixel,
    tap_row, tap_pixel, other_tap, eight_image, eight_row, eight_pixel, eight_tap_row, eight_tap_pixel,
    KH: tl.constexpr, KW: tl.constexpr, TAPS: tl.constexpr, TAPS_W: tl.constexpr, TAP: tl.constexpr,
    BORDER: tl.constexpr, SCATTERED: tl.constexpr, JOINED: tl.constexpr, CHANNELS: tl.constexpr, SCALED: tl.constexpr,
    BIAS: tl.constexpr, OTHER: tl.constexpr, ACTIVATION: tl.constexpr, TAIL: tl.constexpr,
    TAIL_ACTIVATION: tl.constexpr, EIGHT: tl.constexpr, SPLIT: tl.constexpr, PDL: tl.constexpr,
    PREFETCH: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """OTHER: 0 nothing is added, 1 before the activation, 2 after it. SPLIT: the sum is shared by `split_k` programs,
    of which the last to come adds up what all have left, always in the same order. SCATTERED: columns run over the
    window's places and CHANNELS channels together. JOINED: the pixels of a row follow each other, and BK columns are
    several pixels of CHANNELS channels. TAP: a row of the product makes TAPS pixels, and has TAP
    columns for each: those of a transposed convolution's window, or neighbours, which share most of what they read.
    They are `tap_row` and `tap_pixel` apart in the result, TAPS_W in a row. TAIL: the program has all channels, and
    goes on to the single one that a next convolution makes of them. SCALED: the operands are e4m3 numbers. EIGHT: the
    result is stored a second time, in e4m3. PDL: programs start while the kernel before still runs, and wait for its
    end; PREFETCH: they fetch their weights meanwhile."""
    columns = tl.cdiv(width if TAP else OC, BN)
    tile = tl.program_id(0)
    part = tl.program_id(1)
    if PDL:
        if PREFETCH:
            rows = (C // BK) * (KH * KW)
            share = tl.cdiv(rows, split_k)
            across: tl.constexpr = BN if SCALED else (BN + 63) // 64
            down: tl.constexpr = (BK + 127) // 128 if SCALED else BK
            column0 = (tile % columns) * BN + tl.arange(0, across) * (1 if SCALED else 64)
            for i in range(part * share, tl.minimum(rows, (part + 1) * share)):
                row0 = (i % (KH * KW)) * C + (i // (KH * KW)) * BK + tl.arange(0, down) * (128 if SCALED else 1)
                prefetch(w + row0[:, None] * w_depth + column0[None, :] * w_column)
        gdc_wait()
        gdc_launch_dependents()
    rm = (tile // columns) * BM + tl.arange(0, BM)
    rn = (tile % columns) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    inside = rm < M
    image = rm // OHW
    row = (rm % OHW) // OW
    column = rm % OW
    top = row * SH - TOP
    left = column * SW - LEFT
    start = x + image * x_image + top * x_row + left * x_pixel
    w_columns = rn < width
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    if SCATTERED:
        depth: tl.constexpr = KH * KW * CHANNELS
        for k in range(0, depth, BK):
            place = (k + rk) // CHANNELS
            channel = (k + rk) % CHANNELS
            dy = (place // KW) * DH
            dx = (place % KW) * DW
            r = top[:, None] + dy[None, :]
            c = left[:, None] + dx[None, :]
            ok = inside[:, None] & (k + rk < depth)[None, :] & (r >= 0) & (r < H) & (c >= 0) & (c < W)
            offsets = dy * x_row + dx * x_pixel + channel * x_channel
            values = tl.load(start[:, None] + offsets[None, :], mask=ok, other=0.0)
            mask = (k + rk < depth)[:, None] & w_columns[None, :]
            weights = tl.load(w + (k + rk)[:, None] * w_depth + rn[None, :] * w_column, mask=mask, other=0.0)
            acc = tl.dot(values.to(weights.dtype), weights, acc)
    elif JOINED:
        each_row: tl.constexpr = KW * CHANNELS // BK
        x_start = start[:, None] + rk[None, :]
        w_start = w + rk[:, None] * w_depth + rn[None, :] * w_column
        for i in range(0, KH * each_row):
            dy = i // each_row
            across = (i % each_row) * BK
            r = top + dy
            c = left[:, None] + ((across + rk) // CHANNELS)[None, :]
            ok = (inside & (r >= 0) & (r < H))[:, None] & (c >= 0) & (c < W)
            values = tl.load(x_start + (dy * x_row + across), mask=ok, other=0.0)
            weights = tl.load(w_start + i * BK * w_depth, mask=w_columns[None, :], other=0.0)
            acc = tl.dot(values.to(weights.dtype), weights, acc)
    else:
        steps = (C // BK) * (KH * KW)
        each = tl.cdiv(steps, split_k)
        first = part * each
        last = tl.minimum(steps, first + each)
        x_start = start[:, None] + rk[None, :] * x_channel
        w_start = w + rk[:, None] * w_depth + rn[None, :] * w_column
        for i in range(first, last):
            place = i % (KH * KW)
            channel = (i // (KH * KW)) * BK
            dy = (place // KW) * DH
            dx = (place % KW) * DW
            if BORDER:
                r = top + dy
                c = left + dx
                ok = inside & (r >= 0) & (r < H) & (c >= 0) & (c < W)
            else:
                ok = inside
            x_place = x_start + (dy * x_row + dx * x_pixel + channel * x_channel)
            values = tl.load(x_place, mask=ok[:, None], other=0.0)
            weights = tl.load(w_start + (place * C + channel) * w_depth, mask=w_columns[None, :], other=0.0)
            acc = tl.dot(values.to(weights.dtype), weights, acc)
    finish = True
    if SPLIT:
        size = BM * BN
        cells = tl.arange(0, BM)[:, None] * BN + tl.arange(0, BN)[None, :]
        mine = partial + tile * split_k * size + cells
        tl.store(mine + part * size, acc, cache_modifier=".cg")
        tl.debug_barrier()
        arrived = tl.atomic_add(counters + tile, 1)
        finish = arrived == split_k - 1
        if finish:
            acc = tl.zeros((BM, BN), dtype=tl.float32)
            for p in range(0, split_k):
                acc += tl.load(mine + p * size, cache_modifier=".cg")
            tl.store(counters + tile, 0)
    if finish:
        channel = rn % TAP if TAP else rn
        tap = rn // TAP if TAP else rn * 0
        known = (channel < OC) & w_columns
        mask = inside[:, None] & known[None, :]
        if SCALED:
            acc *= tl.load(scales + channel, mask=known, other=0.0)[None, :]
        if BIAS:
            acc += tl.load(bias + channel, mask=known, other=0.0)[None, :]
        if OTHER != 0:
            o = other + image * other_image + row * other_row + column * other_pixel
            o_columns = (tap * other_tap + channel) if TAP else channel
            added = tl.load(o[:, None] + o_columns[None, :], mask=mask, other=0.0).to(tl.float32)
        if OTHER == 1:
            acc += added
        acc = activate(acc, ACTIVATION, a, b)
        if OTHER == 2:
            acc += added
        target = y + image * y_image + row * y_row + column * y_pixel
        if TAIL:
            weights_of_tail = tl.load(tail + channel, mask=known, other=0.0)
            acc = tl.where(known[None, :], acc * weights_of_tail[None, :], 0.0)  # columns that are not there may be NaN
            sums = tl.sum(tl.reshape(acc, (BM, TAPS, BN // TAPS)), axis=2)
            sums = activate(sums + tail_bias, TAIL_ACTIVATION, tail_a, tail_b)
            target = target[:, None] + (tl.arange(0, TAPS) * tap_pixel)[None, :]
            tl.store(target, stored(sums, y, factor), mask=inside[:, None])
        else:
            y_columns = channel
            if TAP:
                y_columns = (tap // TAPS_W) * tap_row + (tap % TAPS_W) * tap_pixel + channel
            tl.store(target[:, None] + y_columns[None, :], stored(acc, y, factor), mask=mask)
            if EIGHT:
                target = eight + image * eight_image + row * eight_row + column * eight_pixel
                y_columns = channel
                if TAP:
                    y_columns = (tap // TAPS_W) * eight_tap_row + (tap % TAPS_W) * eight_tap_pixel + channel
                tl.store(target[:, None] + y_columns[None, :], stored(acc, eight, factor), mask=mask)


@triton.jit
def window(
    x, bias, other, y, eight, a, b, factor,
    size, H, W, C, OW, OHW,
    x_image, x_row, x_pixel, x_channel, other_image, other_row, other_pixel, y_image, y_row, y_pixel,
    eight_image, eight_row, eight_pixel,
    KIND: tl.constexpr, KH: tl.constexpr, KW: tl.constexpr, SH: tl.constexpr, SW: tl.constexpr,
    TOP: tl.constexpr, LEFT: tl.constexpr, DH: tl.constexpr, DW: tl.constexpr, COUNT_PADDING: tl.constexpr,
    BIAS: tl.constexpr, OTHER: tl.constexpr, ACTIVATION: tl.constexpr, EIGHT: tl.constexpr, PDL: tl.constexpr,
    BLOCK: tl.constexpr,
):  # fmt: skip
    """Each value by itself. KIND: `max` or `average` over a window, or `copy`, which takes the value SH and SW times
    over (an upsampling where they are not 1). EIGHT: the result is stored a second time, in e4m3."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    cell = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    known = cell < size
    channel = cell % C
    pixel = cell // C
    image = pixel // OHW
    row = (pixel % OHW) // OW
    column = pixel % OW
    start = x + image * x_image + channel * x_channel
    if KIND == "copy":
        v = tl.load(start + (row // SH) * x_row + (column // SW) * x_pixel, mask=known, other=0.0).to(tl.float32)
    else:
        lowest: tl.constexpr = float("-inf") if KIND == "max" else 0.0
        v = tl.full((BLOCK,), lowest, dtype=tl.float32)
        count = tl.zeros((BLOCK,), dtype=tl.float32)
        for dy in range(KH):
            r = row * SH - TOP + dy * DH
            for dx in tl.static_range(KW):
                c = column * SW - LEFT + dx * DW
                ok = known & (r >= 0) & (r < H) & (c >= 0) & (c < W)
                one = tl.load(start + r * x_row + c * x_pixel, mask=ok, other=0.0).to(tl.float32)
                one = tl.where(ok, one, lowest)  # e4m3 has no infinity
                if KIND == "max":
                    v = tl.maximum(v, one, tl.PropagateNan.ALL)
                else:
                    v += one
                    count += ok.to(tl.float32)
        if KIND == "average":
            v = v / (KH * KW) if COUNT_PADDING else v / count
    if BIAS:
        v += tl.load(bias + channel, mask=known, other=0.0)
    if OTHER != 0:
        there = image * other_image + row * other_row + column * other_pixel + channel
        added = tl.load(other + there, mask=known, other=0.0).to(tl.float32)
    if OTHER == 1:
        v += added
    v = activate(v, ACTIVATION, a, b)
    if OTHER == 2:
        v += added
    tl.store(y + image * y_image + row * y_row + column * y_pixel + channel, stored(v, y, factor), mask=known)
    if EIGHT:
        there = image * eight_image + row * eight_row + column * eight_pixel + channel
        tl.store(eight + there, stored(v, eight, factor), mask=known)


@triton.jit
def mean(
    x, y, C, W, HW, x_image, x_row, x_pixel, y_image, PDL: tl.constexpr, BLOCK: tl.constexpr, PIXELS: tl.constexpr
):
    """Of all pixels, for a block of channels of an image."""
    if PDL:
        gdc_wait()
        gdc_launch_dependents()
    image = tl.program_id(1)
    channel = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, HW, PIXELS):
        p = first + tl.arange(0, PIXELS)
        there = image * x_image + (p // W) * x_row + (p % W) * x_pixel
        ok = (p < HW)[:, None] & (channel < C)[None, :]
        total += tl.sum(tl.load(x + there[:, None] + channel[None, :], mask=ok, other=0.0).to(tl.float32), axis=0)
    tl.store(y + image * y_image + channel, stored(total / HW, y, 1.0), mask=channel < C)
