# SPDX-License-Identifier: Apache-2.0
"""The layer that averages whole images."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.convolution_configuration import BLOCK_FLOATS
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.global_avg_pool2d_configuration import GlobalAvgPool2dConfiguration
from tt_cnn.builder.layer import Layer, as_images
from tt_cnn.builder.pixels import PixelMeans


class TtGlobalAvgPool2d(Layer):
    """The output is (N, 1, 1, C), or with `as_rows` (1, 1, N, C)."""

    configuration: GlobalAvgPool2dConfiguration
    configured_by = GlobalAvgPool2dConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._means = PixelMeans(self.device, configuration.batch_size)

    def run(self, x: Any) -> Any:
        if self.configuration.as_mean:
            return self._first_alone(lambda: self._mean(x))
        return self._pooled(x)

    @property
    def _shape(self) -> tuple[int, int, int, int]:
        config = self.configuration
        outer = (1, 1, config.batch_size) if config.as_rows else (config.batch_size, 1, 1)
        return (*outer, config.channels)

    def _pooled(self, x: Any) -> Any:
        """By TT-NN's op, which takes no block formats, and no shards: images do not end where these do."""
        config = self.configuration
        flow = Flow(x).interleaved()
        if x.dtype in BLOCK_FLOATS:
            flow.then(ttnn.typecast, ttnn.bfloat16)
        images = flow.then(as_images, config)
        images.then(ttnn.global_avg_pool2d, memory_config=config.memory_config)
        if config.dtype not in (None, images.value.dtype):  # TT-NN's op takes a dtype, and gives the input's
            images.then(ttnn.typecast, config.dtype)
        return images.then(ttnn.reshape, self._shape).value if config.as_rows else images.value

    def _mean(self, x: Any) -> Any:
        """Of the flattened pixels: no image has to be cut out."""
        config = self.configuration
        rows = config.batch_size * config.input_height * config.input_width
        pixels = Flow(x).in_tiles().then(ttnn.reshape, (1, 1, rows, config.channels))
        means = Flow(self._means(pixels.value, config.dtype), may_free=True)
        pixels.end()
        return means.then(ttnn.reshape, self._shape).move_to(config.memory_config).value
