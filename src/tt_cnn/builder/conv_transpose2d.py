"""The transposed convolution layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.conv_transpose2d_configuration import ConvTranspose2dConfiguration
from tt_cnn.builder.convolution import ConvolutionLayer


class TtConvTranspose2d(ConvolutionLayer):
    configuration: ConvTranspose2dConfiguration
    configured_by = ConvTranspose2dConfiguration
    input_channels_axis = 0

    def convolve(self, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        config = self.configuration
        return ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            device=self.device,
            in_channels=in_channels,
            out_channels=config.out_channels,
            batch_size=config.batch_size,
            input_height=config.input_height,
            input_width=config.input_width,
            kernel_size=config.kernel_size,
            stride=config.stride,
            padding=config.padding,
            output_padding=config.output_padding,
            dilation=config.dilation,
            groups=config.groups,
            dtype=config.output_dtype,
            conv_config=self.conv2d_config,
            compute_config=self.compute_config,
            dram_slice_config=self.slice_config,
            mirror_kernel=config.mirror_kernel,
            return_weights_and_bias=True,
        )
