# SPDX-License-Identifier: Apache-2.0
"""The layers of a pixel shuffle and of its inverse."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.conv2d import TtConv2d
from tt_cnn.builder.conv2d_configuration import Conv2dConfiguration
from tt_cnn.builder.conv_transpose2d import TtConvTranspose2d
from tt_cnn.builder.conv_transpose2d_configuration import ConvTranspose2dConfiguration
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.pixel_shuffle_configuration import PixelShuffleConfiguration, PixelUnshuffleConfiguration
from tt_cnn.builder.sharding import AutoShardedStrategyConfiguration, HeightShardedStrategyConfiguration
from tt_cnn.builder.weights import replicated, to_host_tensors

_WEIGHTS_IN_L1 = 512 * 1024
"""Bytes that a core holds of a convolution's weights in height shards, of some 1.3 MB."""
_PIXELS_IN_L1 = 128 * 1024
"""Bytes per core of an input that is brought from DRAM to L1: what is made of it there takes more."""


class _Moved(Layer):
    """Flattened pixels through a convolution whose weights are zeros and ones: each value goes to its place.

    TT-NN's ops that turn dimensions work on rows, and take several times as long.
    """

    _convolution: Any

    def run(self, x: Any) -> Any:
        config = self.configuration
        flow = Flow(x, config.deallocate_input)
        if flow.value.is_sharded() or self._small(x):
            flow.move_to(ttnn.L1_MEMORY_CONFIG)
        return flow.then(self._convolution).move_to(config.memory_config).value

    def _small(self, x: Any) -> bool:
        grid = self.device.compute_with_storage_grid_size()
        return bool(prod(x.padded_shape) * 2 <= _PIXELS_IN_L1 * grid.x * grid.y)

    def _settings(self, factor: int, weight: torch.Tensor) -> dict[str, Any]:
        config = self.configuration
        own = ("input_height", "input_width", "batch_size", "output_dtype")
        tensor, _ = to_host_tensors(weight, None, replicated(self.device))
        return {
            **{name: getattr(config, name) for name in own},
            "in_channels": config.channels,
            "out_channels": config.output_channels,
            "kernel_size": factor,
            "stride": factor,
            "weight": tensor,
            "weights_dtype": ttnn.bfloat8_b,
            "math_fidelity": ttnn.MathFidelity.HiFi4,
            "fp32_dest_acc_en": True,
        }


class TtPixelShuffle(_Moved):
    """(1, 1, N*H*W, C*r*r) to (1, 1, N*H*r*W*r, C), in tiles."""

    configuration: PixelShuffleConfiguration
    configured_by = PixelShuffleConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        factor = configuration.upscale_factor
        strategy = configuration.sharding_strategy or _strategy(configuration, factor)
        settings = self._settings(factor, _places(configuration.output_channels, factor))
        own = ConvTranspose2dConfiguration(**settings, sharding_strategy=strategy)
        self._convolution = TtConvTranspose2d(own, self.device)


class TtPixelUnshuffle(_Moved):
    """(1, 1, N*H*W, C) to (1, 1, N*H/r*W/r, C*r*r), in tiles."""

    configuration: PixelUnshuffleConfiguration
    configured_by = PixelUnshuffleConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        factor = configuration.downscale_factor
        strategy = configuration.sharding_strategy or AutoShardedStrategyConfiguration()
        settings = self._settings(factor, _places(configuration.channels, factor))
        self._convolution = TtConv2d(Conv2dConfiguration(**settings, sharding_strategy=strategy), self.device)


def _places(channels: int, factor: int) -> torch.Tensor:
    """(C*r*r, C, r, r): PyTorch's channel c*r*r + i*r + j of a pixel is the channel c of the pixel (i, j) in it."""
    eye = torch.eye(channels * factor**2).reshape(channels * factor**2, channels, factor, factor)
    return eye.contiguous()


def _strategy(configuration: PixelShuffleConfiguration, factor: int) -> Any:
    inputs, outputs = (-(-count // TILE) * TILE for count in (configuration.channels, configuration.output_channels))
    if inputs * outputs * factor**2 > _WEIGHTS_IN_L1:
        return AutoShardedStrategyConfiguration()
    return HeightShardedStrategyConfiguration(act_block_h_override=TILE)
