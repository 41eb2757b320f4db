"""The rows or columns of a convolution's output that are computed at a time, and the input that each part needs.

The rules are those of `Conv2dSliceAttr` (conv2d.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tt_cnn.virtual.ops.conv2d.auto_shard import chosen_layout, need_of
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import block_orientation, input_memory_config
from tt_cnn.virtual.ops.sliding_window.slice_config import Slicing
from tt_cnn.virtual.ops.sliding_window.slicing import chosen_slicing, output_ranges
from tt_cnn.virtual.planning.plan import Planner
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import MemoryConfig


@dataclass(frozen=True)
class Part:
    """A rectangle of the output, and the rectangle of the input with the padding that it needs."""

    out_rows: tuple[int, int]
    out_columns: tuple[int, int]
    in_rows: tuple[int, int]
    in_columns: tuple[int, int]
    padding: tuple[int, int, int, int]

    @property
    def kind(self) -> tuple[int, int, tuple[int, int, int, int]]:
        """All that a part's need depends on: its size and padding, not its position."""
        return self.in_rows[1] - self.in_rows[0], self.in_columns[1] - self.in_columns[0], self.padding

    def of(self, conv: Convolution) -> Convolution:
        """The convolution of this part alone."""
        return conv.but(
            height=self.in_rows[1] - self.in_rows[0],
            width=self.in_columns[1] - self.in_columns[0],
            padding=self.padding,
        )


@dataclass(frozen=True)
class Sliced:
    """A convolution with everything that decides how it is sliced."""

    conv: Convolution
    request: Request
    input_layout: Layout
    input_dtype: DataType
    has_bias: bool

    def part(self, rows: tuple[int, int], columns: tuple[int, int]) -> Part:
        conv = self.conv
        height, width = conv.output_hw
        top, bottom, left, right = conv.padding
        in_rows, before, after = _needed(rows, height, conv.height, conv.stride[0], conv.window.dilated[0], top, bottom)
        in_columns, first, last = _needed(
            columns, width, conv.width, conv.stride[1], conv.window.dilated[1], left, right
        )
        whole = in_rows == (0, conv.height) and in_columns == (0, conv.width)
        rounding = TILE_SIZE if self.request.settings.output_layout is Layout.TILE else 1
        extra = -(columns[1] - columns[0]) % rounding
        if extra and not whole:
            last += extra * conv.stride[1]
        return Part(rows, columns, in_rows, in_columns, (before, after, first, last))

    def input_config(self, planner: Planner, part: Part) -> MemoryConfig:
        """The shards that a part of the input is put into."""
        conv, settings = self.conv, self.request.settings
        rows, columns = part.in_rows[1] - part.in_rows[0], part.in_columns[1] - part.in_columns[0]
        out_rows, out_columns = part.of(conv).output_hw
        layout = settings.shard_layout
        if layout is None:
            unsliced = conv.but(height=rows, width=columns)
            layout = chosen_layout(
                planner.card,
                unsliced,
                settings,
                self.request.compute,
                self.input_layout,
                self.input_dtype,
                self.request.dtype,
                self.has_bias,
                False,
                (out_rows, out_columns),
            )
        return input_memory_config(
            layout,
            block_orientation(settings),
            conv.batch * rows * columns,
            conv.in_channels,
            conv.batch * out_rows * out_columns,
            conv.out_channels,
            False,
            planner.card.grid,
            self.input_layout,
            (rows, columns) != (conv.height, conv.width),
            None,
        )

    def need(self, planner: Planner, part: Part) -> int:
        config = self.input_config(planner, part)
        settings = self.request.settings
        return need_of(
            planner.card,
            part.of(self.conv),
            settings.shard_layout or config.memory_layout,
            settings,
            self.request.compute,
            self.input_layout,
            self.input_dtype,
            self.request.dtype,
            self.has_bias,
            False,
            config,
        ).peak

    def parts(self, slicing: Slicing) -> Iterator[Part]:
        for rows, columns in output_ranges(slicing, self.conv.output_hw, self.request.settings.output_layout):
            yield self.part(rows, columns)

    def chosen_slicing(self, planner: Planner, given: Slicing | None) -> Slicing:
        free = planner.memory.l1

        def need(slicing: Slicing) -> int:
            """The largest need of its parts; the first that does not fit is enough."""
            largest, seen = 0, set()
            for part in self.parts(slicing):
                if part.kind not in seen:
                    seen.add(part.kind)
                    largest = max(largest, self.need(planner, part))
                    if largest > free:
                        break
            return largest

        conv, layout = self.conv, self.request.settings.output_layout
        return chosen_slicing(given, (conv.height, conv.width), conv.output_hw, layout, free, need)


def _needed(
    out: tuple[int, int], out_size: int, size: int, stride: int, window: int, pad_before: int, pad_after: int
) -> tuple[tuple[int, int], int, int]:
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
