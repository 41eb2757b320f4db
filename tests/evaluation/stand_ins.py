# SPDX-License-Identifier: Apache-2.0
"""The smallest models that segment and detect: one convolution each."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, TtConv2d
from tt_cnn.models import ModelEntry, TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

SIZE, CELL = 64, 8
CHANNELS = 8


class Brightness(nn.Module):
    """Pictures (N, 3, H, W) to masks (N, 1, H, W): how red it is around each pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 1, 3, padding=1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.conv(images))


class Cells(nn.Module):
    """A box for each cell of 8x8 pixels, a little larger than it, with confidences in four classes."""

    classes = 4

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, CELL - 1, stride=CELL)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return decoded(self.conv(images))


def decoded(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    batch, _, rows, columns = maps.shape
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(columns), indexing="ij")
    low = torch.stack((x, y), dim=-1).reshape(-1, 2) / torch.tensor([columns, rows])
    corners = torch.cat((low, low + 1.5 / torch.tensor([columns, rows])), dim=1)
    return corners.expand(batch, 1, -1, 4).transpose(1, 2), torch.sigmoid(maps).flatten(2).transpose(1, 2)


class TtOneConvolution(TtModel):
    """The convolution on the card; what follows it is done on the host."""

    def __init__(self, reference: Any, device: Any, *, resolution: Any, batch_size: int, precision: str) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        conv = reference.conv
        weight, bias = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(
            conv.weight.detach(), conv.bias.detach()
        )
        self.configuration = Conv2dConfiguration(
            *resolution,
            3,
            conv.out_channels,
            batch_size,
            conv.kernel_size,
            weight,
            conv.stride,
            conv.padding,
            bias=bias,
        )
        self.conv = TtConv2d(self.configuration, device, name="conv")
        shape = (batch_size, 1, resolution[0] * resolution[1], CHANNELS)
        self.l1_input_memory_config = ttnn.create_sharded_memory_config(
            shape, core_grid=ttnn.CoreGrid(x=8, y=8), strategy=ttnn.ShardStrategy.HEIGHT
        )
        self.dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
            shape, ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
        )
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def __call__(self, x: Any) -> Any:
        return self.conv(x)

    def to_host_input(self, images: torch.Tensor) -> Any:
        rows = nn.functional.pad(images.permute(0, 2, 3, 1), (0, CHANNELS - 3))
        return ttnn.from_torch(rows.reshape(len(images), 1, -1, CHANNELS), dtype=ttnn.bfloat16)

    def maps(self, outputs: Any) -> torch.Tensor:
        values = ttnn.to_torch(outputs).float()[..., : self.configuration.out_channels]
        return values.reshape(self.batch_size, *self.configuration.output_size, -1).permute(0, 3, 1, 2)


class TtBrightness(TtOneConvolution):
    outputs: ClassVar[tuple[str, ...]] = ("mask",)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return (torch.sigmoid(self.maps(outputs)),)


class TtCells(TtOneConvolution):
    outputs: ClassVar[tuple[str, ...]] = ("boxes", "confidences")

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return decoded(self.maps(outputs))


SEGMENTER = ModelEntry(
    "brightness", "Brightness", "segmentation", Brightness, TtBrightness, {"mask": 0.99}, ((SIZE, SIZE),)
)
DETECTOR = ModelEntry(
    "cells", "Cells", "detection", Cells, TtCells, {"boxes": 0.99, "confidences": 0.99}, ((SIZE, SIZE),)
)
