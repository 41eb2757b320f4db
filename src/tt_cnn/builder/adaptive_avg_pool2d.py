# SPDX-License-Identifier: Apache-2.0
"""The layer of an adaptive average pool whose windows have several sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from tt_cnn import ttnn
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import Flow, interleaved_beside
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.lowering import whole_values
from tt_cnn.builder.rules import flags, instance, wholes


@dataclass(frozen=True, eq=False)
class AdaptiveAvgPool2dConfiguration(ImageConfiguration):
    output_height: int
    output_width: int
    memory_config: Any = None
    """None: interleaved, in the memory that the input is in."""
    deallocate_input: bool = False

    rules = (
        *wholes("input_height", "input_width", "channels", "batch_size", "output_height", "output_width"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    @property
    def output_size(self) -> tuple[int, int]:
        return self.output_height, self.output_width

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.AdaptiveAvgPool2d, input_hw: tuple[int, int]) -> dict[str, Any]:
        """None in the layer's size: that of the input."""
        given = torch_layer.output_size
        sizes = given if isinstance(given, (tuple, list)) else (given, given)
        height, width = (own if own is not None else size for own, size in zip(sizes, input_hw, strict=True))
        return {"output_height": height, "output_width": width}


class TtAdaptiveAvgPool2d(Layer):
    """(1, 1, N*H*W, C) to the same of the new size: a product with a matrix that has each pixel's share of each
    window."""

    configuration: AdaptiveAvgPool2dConfiguration
    configured_by = AdaptiveAvgPool2dConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._shares: Any = None

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._shares is None:
            self._shares = matrix_on_device(_shares(config), self.device)
        place = config.memory_config or interleaved_beside(x)
        flat = (1, 1, config.batch_size * config.input_height * config.input_width, config.channels)
        flow = Flow(x, config.deallocate_input).interleaved(place).in_tiles()
        if tuple(flow.value.shape) != flat:
            flow.then(ttnn.reshape, flat)
        return flow.become(
            ttnn.matmul(
                self._shares,
                flow.value,
                dtype=ttnn.bfloat16,
                memory_config=place,
                compute_kernel_config=whole_values(self.device),
            )
        ).value


def _shares(config: AdaptiveAvgPool2dConfiguration) -> torch.Tensor:
    """(N*windows, N*pixels): what PyTorch makes of images that have one pixel each."""
    pixels = config.input_height * config.input_width
    images = torch.eye(pixels).reshape(pixels, 1, config.input_height, config.input_width)
    shares = functional.adaptive_avg_pool2d(images, config.output_size).reshape(pixels, -1).T
    return torch.block_diag(*[shares] * config.batch_size)
