# SPDX-License-Identifier: Apache-2.0
"""Convolutions after Winograd: when they are quicker, by which tiles, and the form of their weights."""

from __future__ import annotations

from typing import NamedTuple

import torch

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.instructions import LANES, pack
from tt_cnn.virtual.engines.replay.kernels.memory import allocate

ROWS = 6
"""Rows that are multiplied at a time with a panel of columns, as product.h has it."""
CACHE_FLOATS = 1 << 18
"""A core's second-level cache."""
BLOCK_FLOATS = 1 << 16
"""What a block of tiles may take of it."""
FETCH = 8
"""Products that take as long as fetching one weight from memory, on one thread or on two (measured on a Zen 5)."""
PLACES = 9
"""Of a 3x3 kernel."""


class Tile(NamedTuple):
    """Of so many results a side."""

    side: int

    @property
    def points(self) -> int:
        """Products for all results of a tile, and weights to fetch."""
        return (self.side + 2) ** 2

    def count(self, node: Node) -> int:
        n, _, h, w = node.shape
        return n * -(-h // self.side) * -(-w // self.side)


TILES = (Tile(4), Tile(2))


def quickest_tile(node: Node) -> Tile | None:
    """None where nine products for each result, and nine weights to fetch, take less time."""
    stride, _, dilation, groups = node.params
    if (node.inputs[1].shape[2:], stride, dilation, groups) != ((3, 3), (1, 1), (1, 1), 1):
        return None
    if node.source.shape[1] % LANES or node.shape[1] < LANES:  # its transformations go by vectors
        return None
    n, _, h, w = node.shape
    best = min(TILES, key=lambda tile: tile.points * (tile.count(node) + FETCH))
    return best if best.points * (best.count(node) + FETCH) < PLACES * (n * h * w + FETCH) else None


def tiles_at_once(node: Node, tile: Tile, threads: int) -> tuple[int, int]:
    """As many as stay in cache; more where weights are large, since these are fetched again for every block.

    And the numbers that a thread needs room for.
    """
    inputs, columns = node.source.shape[1], -(-node.shape[1] // LANES) * LANES
    tiles = tile.count(node)
    rounds = min(12, max(2, tile.points * inputs * columns // (3 * CACHE_FLOATS)))
    blocks = -(-tiles // max(rounds * ROWS, BLOCK_FLOATS // (tile.points * (inputs + columns))))
    if blocks > 1:
        blocks = -(-blocks // threads) * threads
    at_once = -(-tiles // blocks)
    return at_once, tile.points * (at_once * (inputs + columns) + 2 * LANES)


def winograd_weights(weight: torch.Tensor, tile: Tile, threads: int) -> torch.Tensor:
    """The 3x3 kernels at their points, each a matrix (in, out) in panels; behind them the kernels as they are."""
    matrix = weight.shape[1] * (-(-weight.shape[0] // LANES) * LANES)
    packed = allocate(matrix * (tile.points + PLACES))
    pack(weight, packed[: matrix * tile.points], tile.side, threads)
    pack(weight, packed[matrix * tile.points :], 0, threads)
    return packed
