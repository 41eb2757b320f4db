"""The upsampling layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import concatenated_over_slices
from tt_cnn.builder.layer import Layer, as_images
from tt_cnn.builder.slicing import channel_slices
from tt_cnn.builder.upsample_configuration import UpsampleConfiguration


class TtUpsample(Layer):
    """The output is (N, H, W, C). An input that a convolution left flattened is seen as images again."""

    configuration: UpsampleConfiguration
    configured_by = UpsampleConfiguration

    def run(self, x: Any) -> Any:
        images = as_images(x, self.configuration)
        slices = channel_slices(self.configuration.slice_strategy)
        if slices == 1:
            return self.upsample(images)
        return concatenated_over_slices(images, self.configuration.channels, slices, self.upsample)

    def upsample(self, x: Any) -> Any:
        config = self.configuration
        return ttnn.upsample(input_tensor=x, scale_factor=list(config.scale_factor), mode=config.mode)
