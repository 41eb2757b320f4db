# SPDX-License-Identifier: Apache-2.0
"""The layer that multiplies two tensors, or pixels by the gate of their image."""

from __future__ import annotations

from math import prod
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.multiply_configuration import MultiplyConfiguration
from tt_cnn.builder.naming import named
from tt_cnn.builder.pixels import ChannelSpread, PixelSpread
from tt_cnn.builder.rules import shown


class TtMultiply(Layer):
    """x * y. y has x's shape or one that TT-NN spreads over it, or is a gate (N, 1, 1, C) or (1, 1, N, C) of pixels
    (1, 1, N*H*W, C), or has one value for each of several groups of neighbouring channels of a pixel."""

    configuration: MultiplyConfiguration
    configured_by = MultiplyConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._spread = PixelSpread(self.device, configuration.batch_size)
        self._spread_channels = ChannelSpread(self.device)

    def __call__(self, x: Any, y: Any) -> Any:  # type: ignore[override]
        self._check_input(x)
        self._check_input(y)
        with named(self.name), telling(self.name):
            return self._first_alone(lambda: self._product(x, y))

    def _product(self, x: Any, y: Any) -> Any:
        config = self.configuration
        pixels = Flow(x, config.deallocate_input and not config.in_place).in_tiles()
        factor = Flow(y, config.deallocate_other).in_tiles()
        if _has_groups(pixels.value, factor.value):
            factor.interleaved().then(self._spread_channels, pixels.value.shape[-1])
        elif not _spreads(tuple(pixels.value.shape), tuple(factor.value.shape)):
            self._bring_to_pixels(pixels.value, factor)
        own: dict[str, Any] = {} if config.activation is None else {"activations": [config.activation]}
        if config.in_place:
            own["output_tensor"] = pixels.value
        else:
            own["memory_config"] = config.memory_config or pixels.value.memory_config()
            own["dtype"] = config.output_dtype or pixels.value.dtype
        product = ttnn.multiply(pixels.value, factor.value, **own)
        factor.end()
        return pixels.become(product).value

    def _bring_to_pixels(self, pixels: Any, gate: Flow) -> None:
        """The gate's rows, each as often as its image has pixels."""
        images, channels = self.configuration.batch_size, pixels.shape[-1]
        rows = prod(pixels.shape) // channels
        if images == 1 or rows % images or prod(gate.value.shape) != images * channels:
            raise ValueError(
                f"the second factor is {shown(gate.value)}; it must have the shape of the first, "
                f"{tuple(pixels.shape)}, or one row for each of {images} image(s)."
            )
        gate.then(ttnn.reshape, (1, 1, images, channels)).then(self._spread, rows)


def _has_groups(x: Any, y: Any) -> bool:
    """Whether y has as many pixels as x, and one channel for several of x."""
    one, other = tuple(x.shape), tuple(y.shape)
    return one[:-1] == other[:-1] and y.shape[-1] not in (1, x.shape[-1]) and x.shape[-1] % y.shape[-1] == 0


def _spreads(x: tuple[int, ...], y: tuple[int, ...]) -> bool:
    """Whether TT-NN's own rules take y to the shape of x."""
    longer = (1,) * (len(x) - len(y)) + y
    return len(y) <= len(x) and all(b in (a, 1) for a, b in zip(x, longer, strict=True))
