# SPDX-License-Identifier: Apache-2.0
"""Images seen through a sliding window. Images are (batch, height, width, channels)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.primitive import primitive


@dataclass(frozen=True)
class Window:
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (0, 0, 0, 0)
    """Top, bottom, left, right."""
    dilation: tuple[int, int] = (1, 1)
    replicates: bool = False
    """The padding repeats the border instead of being zero."""

    @property
    def touches_each_pixel_once(self) -> bool:
        return self.kernel == self.stride == (1, 1) and not any(self.padding)

    def padded(self, image: Tensor) -> Tensor:
        top, bottom, left, right = self.padding
        if not any(self.padding):
            return image
        if self.replicates:
            nchw = F.pad(image.permute(0, 3, 1, 2), (left, right, top, bottom), mode="replicate")
            return nchw.permute(0, 2, 3, 1)
        return F.pad(image, (0, 0, left, right, top, bottom))

    def output_size(self, padded: Tensor) -> tuple[int, int]:
        return self.results(padded.shape[1], padded.shape[2])

    def output_hw(self, height: int, width: int) -> tuple[int, int]:
        """Of an image of this size."""
        top, bottom, left, right = self.padding
        return self.results(height + top + bottom, width + left + right)

    def results(self, *sizes: int) -> tuple[int, int]:
        """Of a padded image of this size."""
        height, width = (
            (size - self.dilation[axis] * (self.kernel[axis] - 1) - 1) // self.stride[axis] + 1
            for axis, size in enumerate(sizes)
        )
        return height, width

    def matrix(self, image: Tensor) -> Tensor:
        """One row for each output pixel: its window, tap by tap, with all channels each."""
        padded = self.padded(image)
        sizes = self.output_size(padded)

        def positions(axis: int, tap: int) -> slice:
            first = tap * self.dilation[axis]
            return slice(first, first + (sizes[axis] - 1) * self.stride[axis] + 1, self.stride[axis])

        rows, columns = ([positions(axis, tap) for tap in range(self.kernel[axis])] for axis in (0, 1))
        taps = [padded[:, row, column] for row in rows for column in columns]
        return torch.stack(taps, 3).reshape(image.shape[0] * sizes[0] * sizes[1], -1)


@primitive("zeros_around", shape=lambda image, *, size, **_: (image[0], *size, image[3]))
def zeros_around(image: Tensor, *, size: tuple[int, int], first: tuple[int, int], stride: tuple[int, int]) -> Tensor:
    """The pixels of an image (batch, height, width, channels) within a larger one of zeros."""
    batch, height, width, channels = image.shape
    wide = image.new_zeros(batch, *size, channels)
    rows = slice(first[0], first[0] + (height - 1) * stride[0] + 1, stride[0])
    columns = slice(first[1], first[1] + (width - 1) * stride[1] + 1, stride[1])
    wide[:, rows, columns] = image
    return wide


def zeros_between(
    image: Tensor,
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int, int, int],
    dilation: tuple[int, int] = (1, 1),
    output_padding: tuple[int, int] = (0, 0),
) -> Tensor:
    """The image on which a transposed convolution is an ordinary one with unit stride and without padding."""
    n, h, w, c = image.shape
    spread = image.new_zeros(n, (h - 1) * stride[0] + 1, (w - 1) * stride[1] + 1, c)
    spread[:, :: stride[0], :: stride[1]] = image
    reach = [dilation[axis] * (kernel[axis] - 1) for axis in (0, 1)]
    top, bottom, left, right = padding
    borders = (
        reach[1] - left,
        reach[1] - right + output_padding[1],
        reach[0] - top,
        reach[0] - bottom + output_padding[0],
    )
    return F.pad(spread, (0, 0, *borders))
