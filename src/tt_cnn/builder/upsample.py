"""The upsampling layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import ChannelSlicedLayer, concatenated_over_slices
from tt_cnn.builder.layer import as_images
from tt_cnn.builder.upsample_configuration import UpsampleConfiguration


class TtUpsample(ChannelSlicedLayer):
    """The output is (N, H, W, C). An input that a convolution left flattened is seen as images again."""

    configuration: UpsampleConfiguration
    configured_by = UpsampleConfiguration

    def run(self, x: Any) -> Any:
        images = as_images(x, self.configuration)
        if not self.use_channel_slicing:
            return self.upsample(images)
        return concatenated_over_slices(images, self.configuration.channels, self.num_slices, self.upsample)

    def upsample(self, x: Any) -> Any:
        return ttnn.upsample(input_tensor=x, **self.get_upsample_kwargs())

    def get_upsample_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.upsample` that the configuration decides."""
        return {"scale_factor": list(self.configuration.scale_factor), "mode": self.configuration.mode}
