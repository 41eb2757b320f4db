# SPDX-License-Identifier: Apache-2.0
"""Where images lie while the program runs: memory that is no longer needed is used again, while it is in cache."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import torch

from tt_cnn.virtual.engines.replay.ledger import Region
from tt_cnn.virtual.kernel_library import library

MARGIN = 16
"""Floats behind an image that a vector may read beyond its last channel."""


def allocate(floats: int) -> torch.Tensor:
    """Memory that holds anything yet, on large pages where the system has them."""
    memory = torch.empty(floats)
    library().prefer_large_pages(ctypes.c_void_p(memory.data_ptr()), ctypes.c_int64(floats))
    return memory


@dataclass
class Image:
    """Values of a node: a stretch of the channels of a buffer of pixels."""

    buffer: torch.Tensor
    """(batch, height, width, channels)."""
    first: int
    channels: int

    @property
    def pixel(self) -> int:
        return int(self.buffer.shape[3])

    @property
    def pointer(self) -> int:
        return int(self.buffer.data_ptr()) + self.buffer.itemsize * self.first

    @property
    def region(self) -> Region:
        memory, size = self.buffer.untyped_storage().data_ptr(), self.buffer.itemsize
        return Region(memory, size * self.pixel, size * self.first, size * (self.first + self.channels))

    def part(self, first: int, channels: int) -> Image:
        return Image(self.buffer, self.first + first, channels)

    def tensor(self) -> torch.Tensor:
        """As torch sees it: (batch, channels, height, width)."""
        return self.buffer[..., self.first : self.first + self.channels].permute(0, 3, 1, 2)


class Pool:
    """Buffers for as long as they are needed; the smallest free one that is large enough serves next."""

    def __init__(self) -> None:
        self.all: list[torch.Tensor] = []
        self._free: list[torch.Tensor] = []
        self._in_use: list[tuple[int, torch.Tensor]] = []

    def image(self, shape: tuple[int, ...], until: int, dtype: torch.dtype = torch.float32) -> Image:
        """Memory for (batch, channels, height, width) that is given back after position `until`."""
        n, c, h, w = shape
        count = n * c * h * w
        size = -(-count * dtype.itemsize // torch.float32.itemsize)
        fitting = [one for one in self._free if size + MARGIN <= one.numel() <= 4 * size + MARGIN]
        if fitting:
            memory = min(fitting, key=torch.Tensor.numel)
            self._free = [one for one in self._free if one is not memory]
        else:
            memory = allocate(size + MARGIN).zero_()
            self.all.append(memory)
        self._in_use.append((until, memory))
        return Image(memory.view(dtype)[:count].view(n, h, w, c), 0, c)

    def release(self, position: int) -> None:
        """Take back what is not needed after a position."""
        self._free.extend(memory for until, memory in self._in_use if until <= position)
        self._in_use = [(until, memory) for until, memory in self._in_use if until > position]
