"""The convolution layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.conv2d_configuration import Conv2dConfiguration
from tt_cnn.builder.convolution import ConvolutionLayer


class TtConv2d(ConvolutionLayer):
    configured_by = Conv2dConfiguration
    operation = "conv2d"
    input_channels_axis = 1

    def convolve(self, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            compute_config=self.compute_config,
            return_weights_and_bias=True,
            **{**self.get_conv2d_kwargs(), "in_channels": in_channels},
        )

    def get_conv2d_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.conv2d` that the configuration decides, but for the compute configuration."""
        return {**self.keywords(), "slice_config": self.slice_config}
