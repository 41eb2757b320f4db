# SPDX-License-Identifier: Apache-2.0
"""The average pool layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.avg_pool2d_configuration import AvgPool2dConfiguration
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.lowering import to_compute_config
from tt_cnn.builder.pixels import PixelMeans
from tt_cnn.builder.pool import PoolLayer


class TtAvgPool2d(PoolLayer):
    configuration: AvgPool2dConfiguration
    configured_by = AvgPool2dConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.compute_config = to_compute_config(configuration, self.device)
        self._means = PixelMeans(self.device, configuration.batch_size)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._mean(x)) if self.configuration.as_mean else super().run(x)

    def _mean(self, x: Any) -> Any:
        config = self.configuration
        rows = config.batch_size * config.input_height * config.input_width
        pixels = Flow(x, config.deallocate_input).in_tiles().then(ttnn.reshape, (1, 1, rows, config.channels))
        means = Flow(self._means(pixels.value, config.dtype), may_free=True)
        pixels.end()
        return (means if config.output_layout == ttnn.TILE_LAYOUT else means.in_rows()).value

    def pool(self, x: Any) -> Any:
        return ttnn.avg_pool2d(input_tensor=x, channels=self.channels_per_slice, **self.get_avgpool2d_kwargs())

    def get_avgpool2d_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.avg_pool2d` that the configuration decides, but for the channels."""
        own = self.keywords("count_include_pad", "divisor_override")
        return {**own, "compute_kernel_config": self.compute_config}
