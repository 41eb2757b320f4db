# SPDX-License-Identifier: Apache-2.0
"""Memory of the GPU that holds images while the program runs: what is no longer needed is used again."""

from __future__ import annotations

import math

import torch

from tt_cnn.virtual.engines.replay.ledger import Region


def region_of(image: torch.Tensor) -> Region:
    """The memory of a tensor: some channels of all pixels where it has four axes, else all of it."""
    memory, size = image.untyped_storage().data_ptr(), image.element_size()
    if image.dim() != 4 or image.stride(1) != 1:
        return Region(memory, 0, 0, 1)
    first = int(image.storage_offset()) * size
    return Region(memory, image.stride(3) * size, first, first + image.shape[1] * size)


class Buffers:
    """The smallest free one that is large enough serves next; it may still be in the GPU's cache."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._free: list[torch.Tensor] = []
        self._in_use: list[tuple[int, torch.Tensor]] = []

    def image(self, shape: tuple[int, ...], dtype: torch.dtype, until: int) -> torch.Tensor:
        """A tensor that is given back after position `until`: channels last where it has four axes."""
        size = math.prod(shape)
        wanted = size * dtype.itemsize
        fitting = [one for one in self._free if wanted <= one.numel() <= 4 * wanted]
        memory = min(fitting, key=torch.Tensor.numel, default=None)
        if memory is None:
            memory = torch.zeros(wanted, dtype=torch.uint8, device=self.device)
        self._free = [one for one in self._free if one is not memory]
        self._in_use.append((until, memory))
        cells = memory[:wanted].view(dtype)
        if len(shape) != 4:
            return cells.view(shape)
        n, c, h, w = shape
        return cells.view(n, h, w, c).permute(0, 3, 1, 2)

    def release(self, position: int) -> None:
        """Take back what is not needed after a position."""
        self._free.extend(memory for until, memory in self._in_use if until <= position)
        self._in_use = [(until, memory) for until, memory in self._in_use if until > position]
