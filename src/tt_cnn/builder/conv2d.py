# SPDX-License-Identifier: Apache-2.0
"""The convolution layer."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated, fits_into_matmul, folds_shards, runs_as_matmul
from tt_cnn.builder.conv2d_configuration import Conv2dConfiguration
from tt_cnn.builder.convolution import ConvolutionLayer
from tt_cnn.builder.lowering import to_conv2d_config


class TtConv2d(ConvolutionLayer):
    """An activation that TT-NN cannot fuse, because it runs the convolution as a matmul, follows it in place."""

    configured_by = Conv2dConfiguration
    operation = "conv2d"
    input_channels_axis = 1

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.__dict__.pop("_config_without_activation", None)

    def place_of_input(self, x: Any) -> Any:
        """A stride that TT-NN would fold into the channels of an input in height shards is left to the convolution: it
        folds rows on few cores, refuses some, and takes several times as long."""
        place = self.configuration.input_memory_config
        return ttnn.L1_MEMORY_CONFIG if place is None and folds_shards(self.configuration, x) else place

    def convolve(self, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        own: dict[str, Any] = {**self.get_conv2d_kwargs(), "in_channels": in_channels}
        after = self.activation_after(x)
        if after is not None:
            own["conv_config"] = self._config_without_activation
        output, prepared = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            compute_config=self.compute_config,
            return_weights_and_bias=True,
            **own,
        )
        return (output if after is None else activated(output, after)), prepared

    def activation_after(self, x: Any) -> Any:
        """The activation that runs as an op of its own after the convolution of this input; None where none does."""
        activation = self.conv2d_config.activation
        if activation is None or fits_into_matmul(activation) or not runs_as_matmul(self.configuration, x):
            return None
        return self.configuration.used_activation

    def get_conv2d_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.conv2d` that the configuration decides, but for the compute configuration."""
        return {**self.keywords(), "slice_config": self.slice_config}

    @cached_property
    def _config_without_activation(self) -> Any:
        return to_conv2d_config(replace(self.configuration, activation=None, hard_mish=False))
