# SPDX-License-Identifier: Apache-2.0
"""The inner dimension of a convolution: which tap and channel stands in which row of the weight matrix.

Rows stand in one order where weights are prepared and are worked through in another. Facts from the readers of
activations and weights (kernels of conv2d):

* height sharded: a block is one row of the kernel, its taps one after the other with all channels each.
* block sharded: channels are distributed to cores. A block is one row of the kernel with one core's channels. The cores
  send theirs in turn, then comes the next row of the kernel; in the weight matrix all rows of a core stand together.
* width sharded: a block is the whole kernel with a core's channels, or with a part of them: first the first part of
  every core. In the weight matrix each tap has the channels of all cores.
* whole kernels (`full_inner_dim`, activation reuse): rows of the kernel do not end a block.

Every run of taps is filled with zeros to whole tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

TILE = 32
Span = tuple[int, int]


@dataclass(frozen=True)
class Piece:
    """Kernel rows and channels that are multiplied together."""

    rows: Span
    channels: Span


@dataclass(frozen=True)
class Inner:
    scheme: str
    """`height`, `block` or `width`; a matmul is a 1x1 kernel of scheme `height`."""
    kernel: tuple[int, int]
    channels: int
    """Of the input, without padding."""
    shard: int
    """Channels on a core, with padding."""
    cores: int = 1
    """That share the channels."""
    whole: bool = False
    parts: int = 1
    """Into which a core's channels are divided (`act_block_w_div`)."""

    @staticmethod
    def of_matmul(channels: int) -> Inner:
        return Inner("height", (1, 1), channels, _to_tiles(channels))

    @property
    def blank(self) -> int:
        """The index of a row of zeros."""
        return self.kernel[0] * self.kernel[1] * self.channels

    def pieces(self) -> list[Piece]:
        """Blocks in the order in which they are worked through."""
        height, _ = self.kernel
        rows = [(0, height)] if self.whole or self.scheme == "width" else [(i, i + 1) for i in range(height)]
        size = self.shard // self.parts
        shares = [
            (core * self.shard + part * size, core * self.shard + (part + 1) * size)
            for part in range(self.parts)
            for core in range(self.cores)
        ]
        return [Piece(r, share) for r in rows for share in shares]

    def worked_rows(self) -> Tensor:
        """(tap * channels + channel) of each row as blocks come, `blank` for padding."""
        return _rows(self, tuple(self.pieces()))

    def prepared_rows(self) -> Tensor:
        """The same as rows stand in the prepared weight matrix."""
        height, _ = self.kernel
        everything = (0, self.shard * self.cores)
        if self.scheme == "width":
            return _rows(self, (Piece((0, height), everything),))
        rows = [(0, height)] if self.whole else [(i, i + 1) for i in range(height)]
        shares = [(core * self.shard, (core + 1) * self.shard) for core in range(self.cores)]
        return _rows(self, tuple(Piece(r, share) for share in shares for r in rows))

    def depth(self) -> int:
        """Rows of a block."""
        return len(self.worked_rows()) // len(self.pieces())


def _to_tiles(size: int) -> int:
    return -(-size // TILE) * TILE


@lru_cache(maxsize=256)
def _rows(inner: Inner, pieces: tuple[Piece, ...]) -> Tensor:
    numbers: list[int] = []
    for piece in pieces:
        run = list(_run(inner, piece))
        numbers += run + [inner.blank] * (_to_tiles(len(run)) - len(run))
    return torch.tensor(numbers)


def _run(inner: Inner, piece: Piece) -> Iterator[int]:
    width = inner.kernel[1]
    for row in range(*piece.rows):
        for column in range(width):
            start = (row * width + column) * inner.channels
            for channel in range(*piece.channels):
                yield start + channel if channel < inner.channels else inner.blank


def merged(pieces: list[Piece], count: int) -> list[list[Piece]]:
    """The pieces in at most `count` groups of neighbours, those of a group joined to as few rectangles as possible."""
    size = -(-len(pieces) // max(1, count))
    return [_joined(pieces[i : i + size]) for i in range(0, len(pieces), size)]


def _joined(pieces: list[Piece]) -> list[Piece]:
    result: list[Piece] = []
    for piece in pieces:
        while result:
            last = result[-1]
            if last.rows == piece.rows and last.channels[1] == piece.channels[0]:
                piece = Piece(piece.rows, (last.channels[0], piece.channels[1]))
            elif last.channels == piece.channels and last.rows[1] == piece.rows[0]:
                piece = Piece((last.rows[0], piece.rows[1]), piece.channels)
            else:
                break
            result.pop()
        result.append(piece)
    return result
