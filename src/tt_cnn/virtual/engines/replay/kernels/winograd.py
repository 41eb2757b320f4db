# SPDX-License-Identifier: Apache-2.0
"""When a convolution is quicker after Winograd, and how many of its tiles are worked on at a time."""

from __future__ import annotations

from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.kernels.instructions import LANES, POINTS, ROWS

CACHE_FLOATS = 1 << 18
"""A core's second-level cache."""
BLOCK_FLOATS = 1 << 16
"""What a block of tiles may take of it."""
FETCH = 7
"""Products that a core could do while it fetches a weight from memory which it has for itself (measured on a Zen 4)."""


def is_quicker(node: Node, threads: int) -> bool:
    """It takes 36 products for 16 results instead of 9 for each, and 36 weights have to be fetched instead of 9."""
    stride, _, dilation, groups = node.params
    if (node.inputs[1].shape[2:], stride, dilation, groups) != ((3, 3), (1, 1), (1, 1), 1):
        return False
    if node.source.shape[1] % LANES or node.shape[1] < LANES:  # its transformations go by vectors
        return False
    n, _, h, w = node.shape
    fetch = FETCH * threads
    return 4 * (n * -(-h // 4) * -(-w // 4) + fetch) < n * h * w + fetch


def tiles_at_once(node: Node, threads: int) -> tuple[int, int]:
    """As many as stay in cache; more where weights are large, since these are fetched again for every block.

    And the numbers that a thread needs room for.
    """
    n, channels, h, w = node.shape
    inputs, columns = node.source.shape[1], -(-channels // LANES) * LANES
    tiles = n * -(-h // 4) * -(-w // 4)
    rounds = min(12, max(2, POINTS * inputs * columns // (3 * CACHE_FLOATS)))
    blocks = -(-tiles // max(rounds * ROWS, BLOCK_FLOATS // (POINTS * (inputs + columns))))
    if blocks > 1:
        blocks = -(-blocks // threads) * threads
    at_once = -(-tiles // blocks)
    return at_once, POINTS * (at_once * (inputs + columns) + 2 * LANES)
