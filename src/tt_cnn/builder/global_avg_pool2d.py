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
        interleaved = ttnn.sharded_to_interleaved(x) if x.is_sharded() else x  # images do not end where shards do
        return ttnn.global_avg_pool2d(
            as_images(interleaved, config), memory_config=config.memory_config, dtype=config.dtype
        )
