# SPDX-License-Identifier: Apache-2.0
"""Output sizes of sliding windows, in one direction and in both."""

from __future__ import annotations

from typing import Any


def borders(padding: tuple[int, ...]) -> tuple[int, int, int, int]:
    """(top, bottom, left, right) of either way to write a padding."""
    if len(padding) == 2:
        height, width = padding
        return height, height, width, width
    top, bottom, left, right = padding
    return top, bottom, left, right


def convolved(size: int, before: int, after: int, kernel: int, stride: int, dilation: int, ceil: bool = False) -> int:
    """Positions of a window; rounded up, a last window may hang over the end, but starts inside image or border."""
    last_start = size + before + after - dilation * (kernel - 1) - 1
    if not ceil:
        return last_start // stride + 1
    count = -(-last_start // stride) + 1
    return count - 1 if (count - 1) * stride >= size + before else count


def window_output(c: Any, dilation: tuple[int, int] = (1, 1), ceil: bool = False) -> tuple[int, int]:
    """(height, width) after the window of a convolution's or pool's configuration."""
    top, bottom, left, right = borders(c.padding)
    return (
        convolved(c.input_height, top, bottom, c.kernel_size[0], c.stride[0], dilation[0], ceil),
        convolved(c.input_width, left, right, c.kernel_size[1], c.stride[1], dilation[1], ceil),
    )


def transposed_output(c: Any) -> tuple[int, int]:
    """(height, width) after a transposed convolution."""
    top, bottom, left, right = borders(c.padding)
    pads = (top + bottom, left + right)
    sizes = (c.input_height, c.input_width)
    height, width = (
        (sizes[i] - 1) * c.stride[i] - pads[i] + c.dilation[i] * (c.kernel_size[i] - 1) + c.output_padding[i] + 1
        for i in (0, 1)
    )
    return height, width


def same_padding(kernel: tuple[int, int], dilation: tuple[int, int]) -> tuple[int, ...]:
    """PyTorch's padding="same": an odd total puts the larger half after the image."""
    totals = [d * (k - 1) for k, d in zip(kernel, dilation, strict=True)]
    (top, bottom), (left, right) = ((t // 2, t - t // 2) for t in totals)
    return shortened((top, bottom, left, right))


def shortened(border: tuple[int, ...]) -> tuple[int, ...]:
    """(top, bottom, left, right) as (height, width) where both sides are alike."""
    top, bottom, left, right = border
    return (top, left) if (top, left) == (bottom, right) else border


def taps_in_use(size: int, before: int, after: int, kernel: int, stride: int, dilation: int) -> range:
    """The taps of a kernel that see the image somewhere: a wide dilation leaves others in the border for all outputs.

    Those between two of them are among them, and so are all whose loss would take more than the border away.
    """
    last = convolved(size, before, after, kernel, stride, dilation) - 1
    seeing = [
        tap for tap in range(kernel) if tap * dilation - before < size and tap * dilation - before + last * stride >= 0
    ]
    if not seeing:
        return range(kernel)
    first = min(seeing[0], before // dilation)
    end = max(seeing[-1], kernel - 1 - after // dilation)
    return range(first, end + 1)
