"""The layer that averages whole images."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.global_avg_pool2d_configuration import GlobalAvgPool2dConfiguration
from tt_cnn.builder.layer import Layer, as_images


class TtGlobalAvgPool2d(Layer):
    """The output is (N, 1, 1, C)."""

    configuration: GlobalAvgPool2dConfiguration
    configured_by = GlobalAvgPool2dConfiguration

    def run(self, x: Any) -> Any:
        config = self.configuration
        if config.as_mean:
            return self._mean(x)
        interleaved = ttnn.sharded_to_interleaved(x) if x.is_sharded() else x  # images do not end where shards do
        return ttnn.global_avg_pool2d(
            as_images(interleaved, config), memory_config=config.memory_config, dtype=config.dtype
        )

    def _mean(self, x: Any) -> Any:
        """Of the flattened pixels, in L1: no image has to be seen."""
        config = self.configuration
        flat = (1, 1, config.input_height * config.input_width, config.channels)
        pixels = x if tuple(x.shape) == flat else ttnn.reshape(x, flat)
        inside = ttnn.to_memory_config(pixels, ttnn.L1_MEMORY_CONFIG)
        return ttnn.mean(inside, 2, keepdim=True, memory_config=config.memory_config)
