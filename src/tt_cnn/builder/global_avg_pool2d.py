"""The layer that averages whole images."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.global_avg_pool2d_configuration import GlobalAvgPool2dConfiguration
from tt_cnn.builder.layer import Layer, as_images
from tt_cnn.builder.pixels import PixelMeans


class TtGlobalAvgPool2d(Layer):
    """The output is (N, 1, 1, C)."""

    configuration: GlobalAvgPool2dConfiguration
    configured_by = GlobalAvgPool2dConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._means = PixelMeans(self.device, configuration.batch_size)

    def run(self, x: Any) -> Any:
        config = self.configuration
        if config.as_mean and config.batch_size > 1:
            return self._first_alone(lambda: self._means_of_images(x))
        if config.as_mean:
            return self._mean(x)
        interleaved = ttnn.sharded_to_interleaved(x) if x.is_sharded() else x  # images do not end where shards do
        return ttnn.global_avg_pool2d(
            as_images(interleaved, config), memory_config=config.memory_config, dtype=config.dtype
        )

    def _means_of_images(self, x: Any) -> Any:
        """Of the flattened pixels, which no image has to be cut out of where it takes longer."""
        config = self.configuration
        rows = config.batch_size * config.input_height * config.input_width
        pixels = Flow(x).in_tiles().then(ttnn.reshape, (1, 1, rows, config.channels))
        means = Flow(self._means(pixels.value), may_free=True)
        pixels.end()
        return means.then(ttnn.reshape, (config.batch_size, 1, 1, config.channels)).moved(config.memory_config).value

    def _mean(self, x: Any) -> Any:
        """Of the flattened pixels, in L1: no image has to be seen."""
        config = self.configuration
        flat = (1, 1, config.input_height * config.input_width, config.channels)
        pixels = x if tuple(x.shape) == flat else ttnn.reshape(x, flat)
        inside = ttnn.to_memory_config(pixels, ttnn.L1_MEMORY_CONFIG)
        return ttnn.mean(inside, 2, keepdim=True, memory_config=config.memory_config)
