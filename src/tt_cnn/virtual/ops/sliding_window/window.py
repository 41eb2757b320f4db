# SPDX-License-Identifier: Apache-2.0
"""A window that slides over images: sizes of its output and of the padded input, as TT-NN computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.types.geometry import div_up
from tt_cnn.virtual.types.kept_hash import kept_hash
from tt_cnn.virtual.types.lazy import lazy

Pair = tuple[int, int]
Padding = tuple[int, int, int, int]
"""Top, bottom, left, right."""


def whole(value: object, name: str) -> int:
    """A number as TT-NN's bindings take it: unsigned, of 32 bits."""
    if type(value) is int and 0 <= value < 2**32:
        return value
    if not hasattr(value, "__index__") or not 0 <= (number := value.__index__()) < 2**32:
        raise TypeError(f"incompatible function arguments: {name} is {value!r}; it takes 0 to 2**32 - 1")
    return int(number)


def pair(values: Sequence[int], name: str) -> Pair:
    numbers = tuple(int(v) for v in values)
    if len(numbers) != 2:
        raise TypeError(f"{name} is {list(numbers)}; it takes two numbers (height, width)")
    return numbers


def four_paddings(padding: int | Sequence[int]) -> Padding:
    """(height, width) or (top, bottom, left, right) as the latter."""
    if isinstance(padding, int):
        padding = (padding,) * 4
    values = tuple(whole(p, "padding") for p in padding)
    if len(values) == 2:
        return values[0], values[0], values[1], values[1]
    if len(values) == 4:
        return values[0], values[1], values[2], values[3]
    raise TypeError(f"padding is {values}; it takes two numbers (height, width) or four (top, bottom, left, right)")


@kept_hash
@dataclass(frozen=True)
class SlidingWindow:
    """What the real library calls SlidingWindowConfig, without its cores."""

    batch: int
    input_hw: Pair
    window: Pair
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    dilation: Pair = (1, 1)
    output_padding: Pair = (0, 0)
    ceil_mode: bool = False
    transposed: bool = False
    """A transposed convolution: a unit stride over an input with zeros put between its pixels."""
    scale: Pair | None = None
    """Bilinear upsampling by these factors: windows of four neighbours at broken steps."""
    ceil_pad: Pair | None = None
    """The further padding of `ceil_mode`, where it is given and not worked out (slices of a pool)."""

    @lazy
    def dilated(self) -> Pair:
        """Height and width that the window covers."""
        return (
            self.dilation[0] * (self.window[0] - 1) + 1,
            self.dilation[1] * (self.window[1] - 1) + 1,
        )

    @property
    def pad_h(self) -> int:
        return self.padding[0] + self.padding[1]

    @property
    def pad_w(self) -> int:
        return self.padding[2] + self.padding[3]

    @lazy
    def output_hw(self) -> Pair:
        if self.scale is not None:
            return self.input_hw[0] * self.scale[0], self.input_hw[1] * self.scale[1]
        return self._output(0), self._output(1)

    def _output(self, axis: int) -> int:
        size, stride, pads = self.input_hw[axis], self.stride[axis], (self.pad_h, self.pad_w)[axis]
        if self.transposed:
            return (size - 1) * stride - pads + self.dilated[axis] + self.output_padding[axis]
        span = size + pads - self.dilated[axis]
        if self.ceil_pad is not None:
            return (span + self.ceil_pad[axis]) // stride + 1
        if not self.ceil_mode:
            return span // stride + 1
        output = div_up(span, stride) + 1
        starts_in_padding = (output - 1) * stride >= size + self.padding[2 * axis]
        return output - 1 if starts_in_padding else output

    @property
    def output_pixels(self) -> int:
        return self.batch * self.output_hw[0] * self.output_hw[1]

    @property
    def input_pixels(self) -> int:
        return self.batch * self.input_hw[0] * self.input_hw[1]

    @property
    def ceil_padding(self) -> Pair:
        """Further padding below and to the right that `ceil_mode` needs."""
        return self._ceil_pad(0), self._ceil_pad(1)

    def _ceil_pad(self, axis: int) -> int:
        if self.ceil_pad is not None:
            return self.ceil_pad[axis]
        if not self.ceil_mode:
            return 0
        size, stride, pads = self.input_hw[axis], self.stride[axis], (self.pad_h, self.pad_w)[axis]
        return max(0, stride * (self._output(axis) - 1) + self.dilated[axis] - size - pads)

    @lazy
    def padded_hw(self) -> Pair:
        """One image with all its padding (for a transposed window: with the zeros between its pixels too)."""
        if self.transposed:
            return (
                self.output_hw[0] + self.dilated[0] - 1,
                self.output_hw[1] + self.dilated[1] - 1,
            )
        return (
            self.input_hw[0] + self.pad_h + self._ceil_pad(0),
            self.input_hw[1] + self.pad_w + self._ceil_pad(1),
        )

    @lazy
    def first_pixel(self) -> Pair:
        """Where the image begins inside its padding."""
        top, _, left, _ = self.padding
        if not self.transposed:
            return top, left
        return self.dilated[0] - 1 - top, self.dilated[1] - 1 - left

    @property
    def pixel_step(self) -> Pair:
        """Distance of neighbouring pixels in the padded image."""
        return self.stride if self.transposed else (1, 1)

    @property
    def window_step(self) -> Pair:
        """Distance of neighbouring windows in the padded image."""
        return (1, 1) if self.transposed else self.stride
