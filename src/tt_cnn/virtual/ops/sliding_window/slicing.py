# SPDX-License-Identifier: Apache-2.0
"""How an op that runs out of DRAM cuts its output into parts, one after the other through L1 (op_slicing.cpp)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.sliding_window.slice_config import SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

ALONG_HEIGHT, ALONG_WIDTH = SliceTypeEnum.DRAMSliceHeight, SliceTypeEnum.DRAMSliceWidth
NAMES = {ALONG_HEIGHT: "height", ALONG_WIDTH: "width"}
_WIDE_IMAGE = 200
"""Tiled outputs of narrower images are sliced along their height."""
_TALL_IMAGE = 3
"""Row-major outputs are sliced along their width, unless the image is this many times taller than wide."""

Range = tuple[int, int]


def sliced_size(output_hw: Pair, kind: SliceTypeEnum) -> int:
    return output_hw[0 if kind is ALONG_HEIGHT else 1]


def rounding(layout: Layout, kind: SliceTypeEnum) -> int:
    """Slices along the width of a tiled output end at whole tiles."""
    return TILE_SIZE if layout is Layout.TILE and kind is ALONG_WIDTH else 1


def most_slices(output_hw: Pair, layout: Layout, kind: SliceTypeEnum) -> int:
    return div_up(sliced_size(output_hw, kind), rounding(layout, kind))


def check_count(slicing: Slicing, output_hw: Pair, layout: Layout) -> None:
    most = most_slices(output_hw, layout, slicing.kind)
    fatal(
        slicing.count <= most,
        f"Number of slices ({slicing.count}) exceeds the maximum allowed ({most}) for the given output dimension and "
        "alignment.",
    )


def output_ranges(slicing: Slicing, output_hw: Pair, layout: Layout) -> Iterator[tuple[Range, Range]]:
    """Rows and columns of each part, in order. Sizes differ by one at most (by one tile along a tiled width)."""
    height, width = output_hw
    size = sliced_size(output_hw, slicing.kind)
    unit = rounding(layout, slicing.kind)
    least, larger = divmod(div_up(size, unit), slicing.count)
    start = 0
    for i in range(slicing.count):
        end = min(size, start + unit * (least + (1 if i < larger else 0)))
        if end > start:
            yield ((start, end), (0, width)) if slicing.kind is ALONG_HEIGHT else ((0, height), (start, end))
        start = end


def chosen_slicing(
    given: Slicing | None, input_hw: Pair, output_hw: Pair, layout: Layout, free: int, need: Callable[[Slicing], int]
) -> Slicing:
    """The fewest slices whose need fits the free L1, along the better guess of a direction first."""
    if given is not None and given.count:
        return given
    kinds = [given.kind] if given is not None else _guesses(input_hw, layout)
    for kind in kinds:
        most = most_slices(output_hw, layout, kind)
        for count in range(1, most + 1):
            slicing = Slicing(kind, count)
            if need(slicing) <= free:
                return slicing
    fatal(
        False,
        f"DRAM Auto slice could not find valid slice configuration. Tried up to {most} slices for {NAMES[kind]}-"
        f"slicing on output dimension {sliced_size(output_hw, kind)}. Available L1: {free} bytes. Operation requires "
        "more memory than available even with maximum slicing.",
    )
    raise AssertionError


def _guesses(input_hw: Pair, layout: Layout) -> list[SliceTypeEnum]:
    height, width = input_hw
    tall = height > width * _TALL_IMAGE if layout is Layout.ROW_MAJOR else width < _WIDE_IMAGE or height > width
    return [ALONG_HEIGHT, ALONG_WIDTH] if tall else [ALONG_WIDTH, ALONG_HEIGHT]


def needed_input(
    out: Range, out_size: int, size: int, stride: int, window: int, pad_before: int, pad_after: int
) -> tuple[Range, int, int]:
    """The input range of an output range, and its padding; ranges at the image's edges take all of it."""
    start = out[0] * stride - pad_before
    end = (out[1] - 1) * stride - pad_before + window
    before, after = max(0, -start), max(0, end - size)
    start, end = max(0, start), min(size, end)
    if out[0] == 0:
        before, start = pad_before, 0
    if out[1] == out_size:
        after, end = pad_after, size
    return (start, end), before, after
