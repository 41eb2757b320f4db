# SPDX-License-Identifier: Apache-2.0
"""The transposed convolution layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.conv_transpose2d_configuration import ConvTranspose2dConfiguration
from tt_cnn.builder.convolution import ConvolutionLayer


class TtConvTranspose2d(ConvolutionLayer):
    configuration: ConvTranspose2dConfiguration
    configured_by = ConvTranspose2dConfiguration
    operation = "conv_transpose2d"
    input_channels_axis = 0

    def convolve(self, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        return ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            compute_config=self.compute_config,
            return_weights_and_bias=True,
            **{**self.get_conv_transpose2d_kwargs(), "in_channels": in_channels},
        )

    def get_conv_transpose2d_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.conv_transpose2d` that the configuration decides, but for the compute configuration."""
        own = {name: getattr(self.configuration, name) for name in ("output_padding", "mirror_kernel")}
        return {**self.keywords(), **own, "dram_slice_config": self.slice_config}
