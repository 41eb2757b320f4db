# SPDX-License-Identifier: Apache-2.0
"""A residual network as a beginner writes it, with its bottlenecks in it: few cores, DRAM, separate ReLUs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    Conv2dConfiguration,
    GlobalAvgPool2dConfiguration,
    HeightShardedStrategyConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
    TtConv2d,
    TtGlobalAvgPool2d,
    TtLinear,
    TtMaxPool2d,
    TtPlacement,
)
from tt_cnn.models import registry
from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

CLASSES = 1000
CHANNELS = 16
"""Of the picture on the card: three and padding."""


class Residual(nn.Module):
    """The weights of a ResNet18: a stem, four stages of two blocks, a classifier."""

    def __init__(self, stages: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, stages[0], 7, 2, 3)
        self.blocks = nn.ModuleDict()
        before = stages[0]
        for number, width in enumerate(stages, 1):
            for block in range(2):
                stride = 2 if number > 1 and block == 0 else 1
                self.blocks[f"layer{number}_{block}"] = _Block(before, width, stride)
                before = width
        self.fc = nn.Linear(before, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = nn.functional.max_pool2d(torch.relu(self.conv1(images)), 3, 2, 1)
        for block in self.blocks.values():
            x = block(x)
        return self.fc(x.mean((2, 3)))


class _Block(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1)
        self.downsample = nn.Conv2d(before, width, 1, stride) if stride > 1 or before != width else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        skip = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.conv2(torch.relu(self.conv1(x))) + skip)


class TtResidual(TtModel):
    """`in_dram` puts the output of every block into DRAM, as a careful beginner does."""

    outputs = ("logits",)
    in_dram = False
    fused = False
    weights_dtype = ttnn.bfloat8_b
    strategy: Any = HeightShardedStrategyConfiguration(reshard_if_not_optimal=True)

    def __init__(
        self, reference: Residual, device: Any, *, resolution: tuple[int, int], batch_size: int, precision: str
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        height, width = resolution
        self.conv1 = self._convolution(reference.conv1, height, width, "conv1", padded=CHANNELS, activation=RELU)
        height, width = height // 2, width // 2
        channels = reference.conv1.out_channels
        pool = MaxPool2dConfiguration(
            height, width, channels, batch_size, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1)
        )
        self.pool = TtMaxPool2d(pool, device, "maxpool")
        height, width = height // 2, width // 2
        self.blocks = []
        for name, block in reference.blocks.items():
            self.blocks.append(_TtBlock(self, block, height, width, name.replace("_", ".")))
            height, width = height // block.conv1.stride[0], width // block.conv1.stride[1]
        channels = reference.fc.in_features
        self.average = TtGlobalAvgPool2d(
            GlobalAvgPool2dConfiguration(height, width, channels, batch_size), device, "average"
        )
        self.fc = TtLinear(LinearConfiguration.from_torch(reference.fc), device, "fc")
        pixels = batch_size * resolution[0] * resolution[1]
        grid = ttnn.CoreGrid(x=8, y=8)
        self.l1_input_memory_config = ttnn.create_sharded_memory_config(
            (1, 1, pixels, CHANNELS), core_grid=grid, strategy=ttnn.ShardStrategy.HEIGHT
        )
        self.dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
            (1, 1, pixels, CHANNELS), ttnn.TensorMemoryLayout.HEIGHT_SHARDED, device.dram_grid_size()
        )
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def _convolution(
        self, layer: nn.Conv2d, height: int, width: int, name: str, padded: int = 0, **settings: Any
    ) -> TtConv2d:
        weight = layer.weight.data
        if padded:
            weight = torch.nn.functional.pad(weight, (0, 0, 0, 0, 0, padded - weight.shape[1]))
        weight, bias = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(weight, layer.bias)
        configuration = Conv2dConfiguration(
            height,
            width,
            padded or layer.in_channels,
            layer.out_channels,
            self.batch_size,
            layer.kernel_size,
            weight,
            stride=layer.stride,
            padding=layer.padding,
            bias=bias,
            sharding_strategy=self.strategy,
            weights_dtype=self.weights_dtype,
            enable_weights_double_buffer=False,
            **settings,
        )
        return TtConv2d(configuration, self.device, name)

    def __call__(self, x: Any) -> Any:
        x = self.pool(self.conv1(x))
        for block in self.blocks:
            x = block(x)
        return self.fc(self.average(x))

    def to_host_input(self, images: torch.Tensor) -> Any:
        n, c, h, w = images.shape
        pixels = torch.nn.functional.pad(images.permute(0, 2, 3, 1), (0, CHANNELS - c))
        return ttnn.from_torch(pixels.reshape(1, 1, n * h * w, CHANNELS), dtype=ttnn.bfloat16)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return (ttnn.to_torch(outputs).float().reshape(-1, CLASSES),)


RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)


class _TtBlock:
    def __init__(self, model: TtResidual, block: Any, height: int, width: int, name: str) -> None:
        self.model = model
        self.conv1 = model._convolution(block.conv1, height, width, f"{name}.conv1", activation=RELU)
        stride = block.conv1.stride
        self.conv2 = model._convolution(block.conv2, height // stride[0], width // stride[1], f"{name}.conv2")
        self.downsample = None
        if block.downsample is not None:
            self.downsample = model._convolution(block.downsample, height, width, f"{name}.downsample")
        where = ttnn.DRAM_MEMORY_CONFIG if model.in_dram else None
        self.output = TtPlacement(PlacementConfiguration(memory_config=where), model.device, f"{name}.output")

    def __call__(self, x: Any) -> Any:
        residual = self.conv2(self.conv1(x))
        skip = x if self.downsample is None else self.downsample(x)
        skip_here = ttnn.to_memory_config(skip, residual.memory_config())
        if self.model.fused:
            total = ttnn.add(residual, skip_here, activations=[RELU])
        else:
            summed = ttnn.add(residual, skip_here)
            total = ttnn.relu(summed)
            ttnn.deallocate(summed)
        for tensor in (residual, skip_here, skip, x):
            if tensor.is_allocated():
                ttnn.deallocate(tensor)
        return self.output(total)


class TtResidualInDram(TtResidual):
    in_dram = True


class TtResidualAutomatic(TtResidual):
    strategy = AutoShardedStrategyConfiguration()


class TtResidualFused(TtResidual):
    fused = True


ENTRY = ModelEntry(
    name="naive_residual",
    title="A naive residual network",
    task="classification",
    reference=Residual,
    tt=TtResidual,
    gates={"logits": 0.99},
    resolutions=((224, 224), (64, 64)),
    batch_sizes=(1,),
)
IN_DRAM = replace(ENTRY, name="residual_in_dram", tt=TtResidualInDram)
AUTOMATIC = replace(ENTRY, name="residual_automatic", tt=TtResidualAutomatic)
FUSED = replace(ENTRY, name="residual_fused", tt=TtResidualFused)


@contextmanager
def registered(*entries: ModelEntry) -> Iterator[None]:
    for entry in entries:
        registry.register(entry)
    try:
        yield
    finally:
        for entry in entries:
            del registry._ENTRIES[entry.name]
