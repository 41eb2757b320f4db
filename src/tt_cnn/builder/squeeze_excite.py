# SPDX-License-Identifier: Apache-2.0
"""The layer of a squeeze and excitation."""

from __future__ import annotations

from typing import Any

from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.linear import TtLinear
from tt_cnn.builder.multiply import TtMultiply
from tt_cnn.builder.multiply_configuration import MultiplyConfiguration
from tt_cnn.builder.pixels import PixelMeans
from tt_cnn.builder.squeeze_excite_configuration import SqueezeExciteConfiguration


class TtSqueezeExcite(Layer):
    """Pixels (1, 1, N*H*W, C) times the gate of their image, which is made from the mean of all its pixels.

    `reduce` and `expand` are layers of their own, named after this one (`block1.se.reduce`).
    """

    configuration: SqueezeExciteConfiguration
    configured_by = SqueezeExciteConfiguration

    def __init__(self, configuration: Any, device: Any, name: str = "") -> None:
        self._products: tuple[TtLinear, ...] = ()
        super().__init__(configuration, device, name)
        self._products = tuple(
            TtLinear(getattr(self.configuration, part), device, f"{name}.{part}" if name else "")
            for part in ("reduce", "expand")
        )

    @property
    def reduce(self) -> TtLinear:
        return self._products[0]

    @property
    def expand(self) -> TtLinear:
        return self._products[1]

    def configure(self, configuration: Any) -> None:
        before = getattr(self, "configuration", None)
        super().configure(configuration)
        for part, product in zip(("reduce", "expand"), self._products, strict=False):
            if getattr(before, part) is not getattr(configuration, part):
                product.configure(getattr(configuration, part))
        own = ("batch_size", "output_dtype", "in_place", "memory_config")
        settings = {name: getattr(configuration, name) for name in own}
        self._means = PixelMeans(self.device, configuration.batch_size)
        self._gate = TtMultiply(MultiplyConfiguration(**settings, deallocate_other=True), self.device)

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        pixels = Flow(x, config.deallocate_input and not config.in_place).in_tiles()
        gate = Flow(self._means(pixels.value), may_free=True).then(self.reduce).then(self.expand).value
        return pixels.become(self._gate(pixels.value, gate)).value
