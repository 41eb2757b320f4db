# SPDX-License-Identifier: Apache-2.0
"""How `group_norm` deals rows and channels to cores: virtual columns of whole groups, virtual rows of whole tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up
from tt_cnn.virtual.types.tensor_spec import Spec

_ELEMENTS_A_BLOCK = 256 * 256
_MOST_BLOCKS = 256
_SMALL_BUFFERS = 32
"""Tiles that the estimate of a program's buffers has for all the small ones."""
_L1_PERCENT = 95
_FEW_CORES = 32
"""Up to so many the library tilizes beforehand: rows gathered by few cores are slow."""


def virtual_columns(across: int, groups: int, channels: int) -> int:
    """The most columns of cores that hold whole groups and whole tiles; 0 where there are none."""
    count = min(across, groups)
    while count and ((channels // count) % TILE_SIZE or groups % count):
        count -= 1
    return count


def largest_grid(spec: Spec, most: tuple[int, int], groups: int) -> tuple[int, int] | None:
    """The widest grid, then the tallest, over which rows are distributed evenly."""
    channels, batches = spec.padded_shape[3], spec.padded_shape[0]
    rows = div_up(spec.volume // channels, TILE_SIZE)
    for across in range(most[0], 0, -1):
        columns = virtual_columns(across, groups, channels)
        if not columns or across % columns:
            continue
        each = across // columns
        for down in range(min(rows // each, most[1]), 0, -1):
            count = each * down
            if rows % count == 0 and (count < batches or count % batches == 0):
                return across, down
    return None


def tile_spans(channels: int, group: int) -> set[int]:
    """How many tiles groups touch that lie one after the other."""
    starts = range(0, max(1, channels), max(1, group))
    return {(start + group - 1) // TILE_SIZE - start // TILE_SIZE + 1 for start in starts}


class GroupShare(NamedTuple):
    """What a core has of a group norm, in tiles."""

    height: int
    """Of one image."""
    tiles: int
    across: int
    """That a group touches."""
    groups: int
    """Of all images that the core has a part of."""
    members: int
    """Cores that share a group."""


@dataclass(frozen=True)
class Problem:
    """One call: its tensors, and for interleaved ones the cores and blocks."""

    x: Spec
    named: Mapping[str, Spec]
    """weight, bias, mask, negative_mask: those that were given."""
    groups: int
    layout: Layout
    """Of the result."""
    by_welford: bool
    compute: Compute | None
    grid: tuple[int, int] = (1, 1)
    out_blocks: int = field(default=1)
    """-1: by the size of a core's share."""

    @property
    def batches(self) -> int:
        return self.x.padded_shape[0]

    @property
    def channels(self) -> int:
        return self.x.padded_shape[3]

    @property
    def rows(self) -> int:
        """Rows of tiles, of all images."""
        return self.x.volume // self.channels // TILE_SIZE

    @property
    def group(self) -> int:
        return self.channels // self.groups

    @property
    def tile(self) -> int:
        return self.x.dtype.tile_bytes

    @property
    def columns(self) -> int:
        return virtual_columns(self.grid[0], self.groups, self.channels)

    @property
    def down(self) -> int:
        """Virtual rows of cores."""
        return self.grid[0] // self.columns * self.grid[1]

    @property
    def channels_per_core(self) -> int:
        return self.channels // self.columns

    @property
    def multicast(self) -> bool:
        """An image is spread over several rows of cores, which exchange their sums."""
        return self.batches < self.down

    @property
    def uneven(self) -> bool:
        """Some cores have an image more than others."""
        return not self.multicast and self.batches % self.down != 0

    @property
    def block_height(self) -> int:
        """Rows of tiles that a core has of one image."""
        return self.rows // self.down if self.multicast else self.rows // self.batches

    @property
    def block_width(self) -> int:
        return max(tile_spans(self.channels_per_core, self.group))

    @property
    def share(self) -> GroupShare:
        if self.x.is_sharded:
            height, width = self.x.shard.shape
        else:
            height, width = div_up(self.rows, self.down) * TILE_SIZE, self.channels_per_core
        pixels = self.x.padded_shape[2]
        images = max(1, height // max(1, pixels))
        rows = div_up(height, TILE_SIZE)
        return GroupShare(
            height=div_up(rows, images),
            tiles=rows * div_up(width, TILE_SIZE),
            across=max(tile_spans(width, self.group)),
            groups=images * div_up(self.groups, max(1, self.channels // max(1, width))),
            members=max(1, div_up(pixels, max(1, height))),
        )

    @property
    def blocks(self) -> int:
        """In how many a core works through its share. A row-major result is written a row of tiles at a time where
        some groups touch fewer tiles than others (measured)."""
        uneven = len(tile_spans(self.channels_per_core, self.group)) > 1
        if self.layout is Layout.ROW_MAJOR and uneven and not self.by_welford:
            return self.block_height
        return self.asked_blocks

    @property
    def asked_blocks(self) -> int:
        """As the caller has it, or by the library's rule. Recordings have 2 where this rule has 1; the reason was not
        found."""
        if self.out_blocks != -1:
            return self.out_blocks
        volume = self.x.padded_shape[1] * self.x.padded_shape[2] * self.channels
        wanted = max(1, volume // (_ELEMENTS_A_BLOCK * self.columns * self.down))
        count = 1
        while count < wanted and count < _MOST_BLOCKS:
            count *= 2
        return count

    def resident_tiles(self, blocks: int) -> int:
        """Of a group that is tilized as it comes in, with blocks filled up."""
        height = self.block_height // blocks
        padded = blocks
        if self.block_height % blocks:
            padded += (self.block_height - blocks * height) // height + 1
        return padded * height * self.block_width

    def tilized_before(self, card: Card) -> bool:
        """A row-major tensor is tilized by a step of its own where that is quicker or where its buffers do not fit."""
        if self.by_welford or self.x.layout is Layout.TILE:
            return False
        uneven = self.batches >= self.down and self.batches % self.down != 0
        few = self.columns * self.down <= _FEW_CORES
        return few or uneven or not self._fits(card, True, self.layout is Layout.ROW_MAJOR)

    def untilized_after(self, card: Card) -> bool:
        if self.by_welford or self.layout is Layout.TILE:
            return False
        return not self._fits(card, self.x.layout is Layout.ROW_MAJOR, True)

    def _fits(self, card: Card, tilizes: bool, untilizes: bool) -> bool:
        """The library's own estimate, which is not what the program's buffers add up to."""
        if self.rows < self.down or not self.block_height:
            return False
        blocks = min(max(1, self.asked_blocks), self.block_height)
        block = self.block_height // blocks * self.block_width
        tiles = 7 * block + _SMALL_BUFFERS + 2 * self.block_width + (2 * block if untilizes else 0)
        if tilizes:
            tiles += self.resident_tiles(blocks)
        tiles += sum(div_up(self.channels_per_core, TILE_SIZE) for n in ("weight", "bias") if n in self.named)
        return tiles * self.tile * 100 <= (card.l1_size - card.l1_base) * _L1_PERCENT

    @property
    def register(self) -> int:
        """A tile of what lies between steps: float32 for float32 tensors."""
        return (DataType.FLOAT32 if self.x.dtype is DataType.FLOAT32 else DataType.BFLOAT16).tile_bytes

    def mask_tile(self, name: str = "mask") -> int:
        return (self.named[name].dtype if name in self.named else DataType.BFLOAT16).tile_bytes
