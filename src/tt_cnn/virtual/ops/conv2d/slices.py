# SPDX-License-Identifier: Apache-2.0
"""The rows or columns of a convolution's output that are computed at a time, and the input that each part needs.

The rules are those of `Conv2dSliceAttr` (conv2d.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tt_cnn.virtual.ops.conv2d.auto_shard import Layer, chosen_layout, need_of
from tt_cnn.virtual.ops.conv2d.problem import Convolution, Request
from tt_cnn.virtual.ops.conv2d.sharding import shards_of_part
from tt_cnn.virtual.ops.sliding_window.slice_config import Slicing
from tt_cnn.virtual.ops.sliding_window.slicing import Range, chosen_slicing, needed_input, output_ranges
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import MemoryConfig


class Part(NamedTuple):
    """A rectangle of the output, and the rectangle of the input with the padding that it needs."""

    out_rows: tuple[int, int]
    out_columns: tuple[int, int]
    in_rows: tuple[int, int]
    in_columns: tuple[int, int]
    padding: tuple[int, int, int, int]


@dataclass(frozen=True)
class Sliced:
    """A convolution out of DRAM with everything that decides how it is sliced."""

    layer: Layer

    @property
    def conv(self) -> Convolution:
        return self.layer.conv

    @property
    def request(self) -> Request:
        return self.layer.request

    def part(self, rows: Range, columns: Range) -> tuple[Part, Convolution]:
        """A rectangle of the output: the input it needs, and the convolution that makes it."""
        conv = self.conv
        height, width = conv.output_hw
        top, bottom, left, right = conv.padding
        covered = conv.window.dilated
        in_rows, before, after = needed_input(rows, height, conv.height, conv.stride[0], covered[0], top, bottom)
        in_columns, first, last = needed_input(columns, width, conv.width, conv.stride[1], covered[1], left, right)
        whole = in_rows == (0, conv.height) and in_columns == (0, conv.width)
        rounding = TILE_SIZE if self.request.settings.output_layout is Layout.TILE else 1
        extra = -(columns[1] - columns[0]) % rounding
        if extra and not whole:
            last += extra * conv.stride[1]
        padding = before, after, first, last
        own = conv.but(height=in_rows[1] - in_rows[0], width=in_columns[1] - in_columns[0], padding=padding)
        return Part(rows, columns, in_rows, in_columns, padding), own

    def estimated(self, own: Convolution) -> Convolution:
        """The convolution by which a part's layout is chosen: it has the whole image's padding."""
        return self.conv.but(height=own.height, width=own.width)

    def is_sliced(self, own: Convolution) -> bool:
        return (own.height, own.width) != (self.conv.height, self.conv.width)

    def input_config(self, own: Convolution) -> MemoryConfig:
        """The shards that a part of the input is put into."""
        layer, settings = self.layer, self.request.settings
        layout = settings.shard_layout
        if layout is None:
            layout = chosen_layout(layer._replace(conv=self.estimated(own), output_hw=own.output_hw))
        grid = layer.card.grid
        return shards_of_part(own, layout, settings, layer.input_layout, self.is_sliced(own), grid)

    def need(self, part: Part, own: Convolution, count: int) -> int:
        """Bytes per core that a part is estimated to take, as one of `count`."""
        config = self.input_config(own)
        layout = self.request.settings.shard_layout or config.memory_layout
        return need_of(self.layer._replace(conv=own), layout, config).peak

    def parts(self, slicing: Slicing) -> Iterator[tuple[Part, Convolution]]:
        for rows, columns in output_ranges(slicing, self.conv.output_hw, self.request.settings.output_layout):
            yield self.part(rows, columns)

    def after(self, config: MemoryConfig) -> Sliced:
        """The same once a part's input was put into these shards."""
        return self

    def chosen_slicing(self, free: int, given: Slicing | None) -> Slicing:
        def need(slicing: Slicing) -> int:
            """The largest need of its parts; the first that does not fit is enough."""
            largest, seen = 0, set()
            for part, own in self.parts(slicing):
                kind = own, part.out_rows[1] - part.out_rows[0], part.out_columns[1] - part.out_columns[0]
                if kind not in seen:
                    seen.add(kind)
                    largest = max(largest, self.need(part, own, slicing.count))
                    if largest > free:
                        break
            return largest

        conv, layout = self.conv, self.request.settings.output_layout
        return chosen_slicing(given, (conv.height, conv.width), conv.output_hw, layout, free, need)
