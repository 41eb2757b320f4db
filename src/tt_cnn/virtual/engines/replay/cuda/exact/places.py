# SPDX-License-Identifier: Apache-2.0
"""What the kernel of products is told of a convolution: where the numbers of a window are, and what is stored between
blocks of the inner dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.convolution.inner import TILE
from tt_cnn.virtual.numerics.convolution.recipe import Recipe
from tt_cnn.virtual.types.enums import DataType

GROUP = 8
"""Neighbours along the inner dimension that share an alignment."""
BLANK = -1
"""The offset of a zero."""
FLOAT32, BFLOAT16 = 0, 1
PARTIALS = {DataType.FLOAT32: FLOAT32, DataType.BFLOAT16: BFLOAT16}
"""What is rounded number by number between two blocks."""


@dataclass(frozen=True)
class Places:
    """Window r starts `image`, `line` and `pixel` numbers further for each image, line and pixel before it."""

    rows: int
    """Windows."""
    results: int
    """Of an image."""
    across: int
    image: int
    line: int
    pixel: int

    @staticmethod
    def of_matrix(rows: int, inner: int) -> Places:
        return Places(rows, 1, 1, inner, 0, 0)

    @staticmethod
    def of_windows(recipe: Recipe, padded: Sequence[int]) -> Places:
        batch, height, width, channels = padded
        down, across = recipe.window.results(height, width)
        line, pixel = recipe.window.stride
        return Places(
            batch * down * across,
            down * across,
            across,
            image=height * width * channels,
            line=line * width * channels,
            pixel=pixel * channels,
        )


@dataclass(frozen=True)
class Stored:
    """What happens between two blocks."""

    depth: int
    """Rows of a block."""
    blocks: int = 1
    partials: int = FLOAT32
    packer_adds: bool = False
    bias: bool = True
    whole_sums: bool = True
    """They come back into the register as they are."""


def stored_between(recipe: Recipe, inner: int) -> Stored | None:
    """None where the kernel does not follow what happens there."""
    depth, blocks = recipe.depth, -(-inner // recipe.depth)
    if depth % TILE or inner % depth:
        return None
    if blocks == 1:
        return Stored(depth)
    if recipe.partials not in PARTIALS:
        return None
    if recipe.partials is DataType.FLOAT32 and recipe.reloads_whole and not recipe.fp32_dest:
        return None  # the register may come back with more bits than a kernel of float32 can round
    partials = PARTIALS[recipe.partials]
    return Stored(depth, blocks, partials, recipe.packer_adds, recipe.bias, recipe.reloads_whole)


@lru_cache(maxsize=256)
def offsets_of(recipe: Recipe, width: int, channels: int) -> tuple[Tensor, bool]:
    """Where the numbers of a window are, counted from its first, and whether groups of them lie side by side."""
    rows, blank = recipe.inner.worked_rows(), recipe.inner.blank
    tap, channel = rows // recipe.inner.channels, rows % recipe.inner.channels
    row, column = tap // recipe.window.kernel[1], tap % recipe.window.kernel[1]
    place = (row * recipe.window.dilation[0] * width + column * recipe.window.dilation[1]) * channels + channel
    offsets = torch.where(rows == blank, BLANK, place).to(torch.int32)
    groups = offsets.view(-1, GROUP)
    adjacent = (groups[:, :1] >= 0) & (groups == groups[:, :1] + torch.arange(GROUP))
    return offsets, bool((adjacent.all(1) | (groups < 0).all(1)).all())
