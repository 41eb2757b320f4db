# SPDX-License-Identifier: Apache-2.0
"""From flattened pixels to one row for each image, and back: means over all pixels, and rows spread over them."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.lowering import whole_values

_FEW_ROWS = 32
"""Rows of tiles up to which a column of them is summed as quickly by one core as by several, counting what has to be
moved for these."""

_MANY_CHANNELS = 256
"""From which on a product takes less time than cutting pixels into images, however many rows there are: the time of
the product grows with the rows, that of cutting with all values (predicted for n150, 7x7 to 28x28 pixels of 2 to 16
images)."""

_BLOCK = 32
"""Tiles of the pixels that a core has in a block of the product."""
_DESTINATION = 4
"""Tiles of sums in 32 bits that a core keeps while it adds."""


class PixelMeans:
    """(1, 1, N*H*W, C) in tiles to (1, 1, N, C), in L1, by the quickest of three ways."""

    def __init__(self, device: Any, images: int) -> None:
        self._device = device
        self._images = images
        self._averaging: dict[int, Any] = {}
        """By the number of rows: a matrix with 1/(H*W) where a pixel belongs to an image."""

    def __call__(self, x: Any, dtype: Any = None) -> Any:
        """In `dtype`; None: the input's, or of a product bfloat16."""
        rows, channels = prod(x.shape) // x.shape[-1], x.shape[-1]
        if self._images == 1:
            return Flow(self._of_one(x, rows), may_free=True).in_tiles(dtype).value
        flow = Flow(x).interleaved()
        if rows // self._images % TILE and (rows <= _FEW_ROWS * TILE or channels >= _MANY_CHANNELS):
            return flow.become(self._product(flow.value, rows, dtype or ttnn.bfloat16)).value
        flow.then(ttnn.reshape, (self._images, 1, rows // self._images, channels))
        flow.then(ttnn.mean, 2, keepdim=True, memory_config=ttnn.L1_MEMORY_CONFIG)
        return flow.then(ttnn.reshape, (1, 1, self._images, channels)).in_tiles(dtype).value

    def _of_one(self, x: Any, rows: int) -> Any:
        """Block shards with few rows are summed where they are; else all cores help."""
        flow = Flow(x)
        blocks = x.memory_config().memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
        if not blocks or rows > _FEW_ROWS * TILE:
            flow.interleaved()
        if tuple(x.shape)[:-1] != (1, 1, rows):
            flow.then(ttnn.reshape, (1, 1, rows, x.shape[-1]))
        return flow.then(ttnn.mean, 2, keepdim=True, memory_config=ttnn.L1_MEMORY_CONFIG).value

    def _product(self, x: Any, rows: int, dtype: Any) -> Any:
        """Images do not end where tiles do, and cutting pixels into images takes longer than multiplying them."""
        if rows not in self._averaging:
            pixels = rows // self._images
            weights = torch.repeat_interleave(torch.eye(self._images), pixels, dim=1) / pixels
            self._averaging[rows] = matrix_on_device(weights, self._device)
        return _product(self._averaging[rows], x, self._device, dtype, self._program(rows, x.shape[-1]))

    def _program(self, rows: int, channels: int) -> Any:
        """Columns of tiles dealt out, and as many rows in a block as fit: alone, TT-NN takes them one by one, which is
        three times as slow. None where one row of tiles does not hold all images."""
        if self._images > TILE:
            return None
        grid = self._device.compute_with_storage_grid_size()
        columns, inner = -(-channels // TILE), -(-rows // TILE)
        each = -(-columns // (grid.x * grid.y))
        return ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
            compute_with_storage_grid_size=(grid.x, grid.y),
            in0_block_w=max(n for n in range(1, inner + 1) if inner % n == 0 and (n == 1 or n * each <= _BLOCK)),
            out_subblock_h=1,
            out_subblock_w=max(n for n in range(1, _DESTINATION + 1) if each % n == 0),
            per_core_M=1,
            per_core_N=each,
            fuse_batch=True,
            fused_activation=None,
            mcast_in0=True,
        )


class PixelSpread:
    """(1, 1, N, C) in tiles to (1, 1, N*H*W, C): each row as often as its image has pixels, in L1.

    It is a product with a matrix of zeros and ones: images do not end where tiles do, and to cut pixels into images
    takes several times longer.
    """

    def __init__(self, device: Any, images: int) -> None:
        self._device = device
        self._images = images
        self._spreading: dict[int, Any] = {}
        """By the number of rows."""

    def __call__(self, x: Any, rows: int) -> Any:
        if rows not in self._spreading:
            ones = torch.repeat_interleave(torch.eye(self._images), rows // self._images, dim=0)
            self._spreading[rows] = matrix_on_device(ones, self._device, ttnn.bfloat8_b)
        return _product(self._spreading[rows], x, self._device, x.dtype)


class ChannelSpread:
    """(1, 1, rows, groups) in tiles to (1, 1, rows, channels), in L1: each value for all channels of its group.

    A product with a matrix of zeros and ones, for the same reason.
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._spreading: dict[tuple[int, int], Any] = {}
        """By the number of groups and that of channels."""

    def __call__(self, x: Any, channels: int) -> Any:
        groups = x.shape[-1]
        if (groups, channels) not in self._spreading:
            ones = torch.repeat_interleave(torch.eye(groups), channels // groups, dim=1)
            self._spreading[groups, channels] = matrix_on_device(ones, self._device)
        return _product(x, self._spreading[groups, channels], self._device, x.dtype)


def _product(left: Any, right: Any, device: Any, dtype: Any, program: Any = None) -> Any:
    return ttnn.matmul(
        left,
        right,
        dtype=dtype,
        program_config=program,
        memory_config=ttnn.L1_MEMORY_CONFIG,
        compute_kernel_config=whole_values(device),
    )
