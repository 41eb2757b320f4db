# SPDX-License-Identifier: Apache-2.0
"""A ResNet18 as somebody writes it first, tuned nowhere: what `tt-cnn optimize` is shown on.

    PYTHONPATH=benchmarks tt-cnn profile naive_resnet18:ENTRY

bfloat16 all through, `AutoShardedStrategyConfiguration`, the default compute configuration, every tensor back to DRAM
between layers, sums and their ReLUs in ops of their own, a global average pool. All of it is said by the configurations
of named layers, so that all of it can be changed without touching the code.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    Conv2dConfiguration,
    GlobalAvgPool2dConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
    TtAdd,
    TtConv2d,
    TtGlobalAvgPool2d,
    TtLinear,
    TtMaxPool2d,
    TtPlacement,
    free,
)
from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import Precision, TtModel, weights_mapper
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d

RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
DRAM = ttnn.DRAM_MEMORY_CONFIG
STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
"""Channels and first stride."""


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        blocks: list[BasicBlock] = []
        inputs = 64
        for outputs, stride in STAGES:
            blocks += [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
            inputs = outputs
        self.blocks = nn.ModuleList(blocks)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.fc(x.mean(dim=(2, 3)))
        return logits


class Making:
    """Makes layers one after another; knows the size that the image has reached."""

    def __init__(self, device: Any, resolution: tuple[int, int], batch_size: int) -> None:
        self.device, self.batch_size = device, batch_size
        self.size = resolution
        self.mapper = weights_mapper(device)

    def conv(self, name: str, conv: nn.Conv2d, norm: nn.BatchNorm2d, size: tuple[int, int], relu: bool) -> TtConv2d:
        weight, bias = fold_batch_norm2d_into_conv2d(conv, norm)
        tensors = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(weight, bias, self.mapper)
        configuration = Conv2dConfiguration(
            *size,
            conv.in_channels,
            conv.out_channels,
            self.batch_size,
            (conv.kernel_size[0], conv.kernel_size[1]),
            tensors[0],
            (conv.stride[0], conv.stride[1]),
            tuple(int(side) for side in conv.padding),
            bias=tensors[1],
            activation=RELU if relu else None,
            output_memory_config=DRAM,
        )
        self.size = configuration.output_size
        return TtConv2d(configuration, self.device, name)

    def placement(self, name: str, memory_config: Any = None) -> TtPlacement:
        return TtPlacement(PlacementConfiguration(memory_config), self.device, name)


class TtBasicBlock:
    def __init__(self, making: Making, block: BasicBlock, name: str) -> None:
        size = making.size
        self.input = making.placement(f"{name}.input")
        self.downsample: TtConv2d | None = None
        if block.downsample is not None:
            conv, norm = block.downsample
            assert isinstance(conv, nn.Conv2d) and isinstance(norm, nn.BatchNorm2d)
            self.downsample = making.conv(f"{name}.downsample", conv, norm, size, relu=False)
        self.conv1 = making.conv(f"{name}.conv1", block.conv1, block.bn1, size, relu=True)
        self.conv2 = making.conv(f"{name}.conv2", block.conv2, block.bn2, making.size, relu=False)
        configuration = AddConfiguration(RELU, fuse_activation=False, in_place=False)
        self.add = TtAdd(configuration, making.device, f"{name}.add")

    def __call__(self, x: Any) -> Any:
        x = self.input(x)
        shortcut = x if self.downsample is None else self.downsample(x)
        hidden = self.conv1(x)
        if shortcut is not x:
            free(x)
        y = self.conv2(hidden)
        free(hidden)
        return self.add(y, shortcut)


class TtNaiveResNet18(TtModel):
    """Images with their channels last, (N, H, W, 3), to logits, (N, 1, 1, classes)."""

    outputs = ("logits",)

    def __init__(
        self,
        reference: ResNet18,
        device: Any,
        *,
        resolution: tuple[int, int],
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        making = Making(device, resolution, batch_size)
        self.conv1 = making.conv("conv1", reference.conv1, reference.bn1, resolution, relu=True)
        channels = reference.conv1.out_channels
        pool = MaxPool2dConfiguration.from_torch(reference.maxpool, *making.size, batch_size, channels)
        making.size = pool.output_size
        self.pool_input = making.placement("maxpool.input")
        self.maxpool = TtMaxPool2d(pool, device, "maxpool")
        self.pool_output = making.placement("maxpool.output", DRAM)
        self.blocks = [TtBasicBlock(making, block, f"blocks.{index}") for index, block in enumerate(_blocks(reference))]
        self.average_input = making.placement("average.input")
        average = GlobalAvgPool2dConfiguration(*making.size, STAGES[-1][0], batch_size)
        self.average = TtGlobalAvgPool2d(average, device, "average")
        self.fc = TtLinear(LinearConfiguration.from_torch(reference.fc, making.mapper), device, "fc")
        self.classes = reference.fc.out_features
        self.l1_input_memory_config = ttnn.L1_MEMORY_CONFIG
        self.dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
            (batch_size, *resolution, 3), ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
        )
        self.dram_output_memory_config = DRAM

    def __call__(self, x: Any) -> Any:
        x = self.pool_input(self.conv1(x))
        pooled = self.maxpool(x)
        free(x)
        x = self.pool_output(pooled)
        for block in self.blocks:
            x = block(x)
        x = self.average_input(x)
        means = self.average(x)
        free(x)
        logits = self.fc(means)
        free(means)
        return logits

    def to_host_input(self, images: torch.Tensor) -> Any:
        pixels = images.permute(0, 2, 3, 1).contiguous()
        return ttnn.from_torch(pixels, dtype=ttnn.bfloat16, mesh_mapper=self.input_mapper)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        logits = ttnn.to_torch(outputs, mesh_composer=self.output_composer).float()
        return (logits.reshape(-1, self.classes),)


def _blocks(reference: ResNet18) -> list[BasicBlock]:
    return [block for block in reference.blocks if isinstance(block, BasicBlock)]


ENTRY = ModelEntry(
    name="naive_resnet18",
    title="ResNet18, untuned",
    task="classification",
    reference=ResNet18,
    tt=TtNaiveResNet18,
    gates={"logits": 0.99},
    resolutions=((224, 224),),
    mean=(0.485, 0.456, 0.406),
    std=(0.229, 0.224, 0.225),
)
