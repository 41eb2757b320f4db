"""Networks of inverted residuals on the card: what MobileNetV2 and EfficientNet-Lite have in common.

A stem halves the picture; blocks of three convolutions (expand, depthwise, project) follow; a 1x1 convolution, an
average over the image and a linear layer give the logits. Every tensor in between is sharded over the cores' L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    Conv2dConfiguration,
    LinearConfiguration,
    TtAvgPool2d,
    TtConv2d,
    TtLinear,
)
from tt_cnn.models.tt_model import TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

PICTURE_CHANNELS = 3


class BlockNames(NamedTuple):
    """Where the reference has the convolutions of a block."""

    expand: str | None
    depthwise: str
    project: str


class Names(NamedTuple):
    """Where the reference has its convolutions, and the linear layer."""

    stem: str
    blocks: tuple[BlockNames, ...]
    head: str
    linear: str


@dataclass(frozen=True)
class StemConfiguration:
    input_cores: int
    """Cores that the picture lies on, each with as many of its pixels: those of the convolution."""
    conv: Conv2dConfiguration


@dataclass(frozen=True)
class BlockConfiguration:
    expand: Conv2dConfiguration | None
    depthwise: Conv2dConfiguration
    project: Conv2dConfiguration
    adds_input: bool


@dataclass(frozen=True)
class NetworkConfiguration:
    stem: StemConfiguration
    blocks: tuple[BlockConfiguration, ...]
    head: Conv2dConfiguration
    pool: AvgPool2dConfiguration
    linear: LinearConfiguration
    batch_size: int
    resolution: tuple[int, int]


class TtStem:
    """Planes of pixels to pixels of channels, and the first convolution. The picture stays where it is."""

    def __init__(self, configuration: StemConfiguration, device: Any, name: str) -> None:
        self.layer = TtConv2d(configuration.conv, device, name)

    def __call__(self, picture: Any) -> Any:
        return self.layer(ttnn.experimental.convert_to_hwc(picture))


class TtInvertedResidual:
    """The input is given back; where it is added, once that is done."""

    def __init__(self, configuration: BlockConfiguration, device: Any, names: BlockNames) -> None:
        self.expand = (
            None if configuration.expand is None else TtConv2d(configuration.expand, device, names.expand or "")
        )
        self.depthwise = TtConv2d(configuration.depthwise, device, names.depthwise)
        self.project = TtConv2d(configuration.project, device, names.project)
        self.adds_input = configuration.adds_input

    def __call__(self, x: Any) -> Any:
        hidden = x if self.expand is None else self.expand(x)
        output = self.project(self.depthwise(hidden))
        return _added(output, x) if self.adds_input else output


class InvertedResidualNetwork(TtModel):
    """Pictures as (1, batch, 3, H * W) on a chip; logits as (1, 1, batch, classes)."""

    outputs: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, configuration: NetworkConfiguration, names: Names, device: Any) -> None:
        self.device = device
        self.batch_size = configuration.batch_size
        self.resolution = configuration.resolution
        self.stem = TtStem(configuration.stem, device, names.stem)
        self.blocks = [
            TtInvertedResidual(block, device, named)
            for block, named in zip(configuration.blocks, names.blocks, strict=True)
        ]
        self.head = TtConv2d(configuration.head, device, names.head)
        self.pool = TtAvgPool2d(configuration.pool, device, "pool")
        self.classifier = TtLinear(configuration.linear, device, names.linear)
        self.classes = configuration.linear.out_features
        height, width = self.resolution
        shape = (1, self.batch_size, PICTURE_CHANNELS, height * width)
        self.l1_input_memory_config = picture_memory_config(shape, configuration.stem.input_cores, device)
        self.dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
            shape, ttnn.TensorMemoryLayout.WIDTH_SHARDED, device.dram_grid_size()
        )
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def __call__(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classify(x)

    def classify(self, x: Any) -> Any:
        """Logits of what the last block gives, which is given back."""
        means = self.pool(self.head(x))
        logits = self.classifier(means)
        ttnn.deallocate(means)
        return logits

    def to_host_input(self, images: torch.Tensor) -> Any:
        height, width = self.resolution
        planes = images.reshape(-1, self.batch_size, PICTURE_CHANNELS, height * width)
        return ttnn.from_torch(planes, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=self.input_mapper)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        logits = ttnn.to_torch(outputs, mesh_composer=self.output_composer)
        return (logits.float().reshape(-1, self.classes),)


def picture_memory_config(shape: tuple[int, int, int, int], cores: int, device: Any) -> Any:
    """The planes cut into as many strips as there are cores, as `convert_to_hwc` takes them."""
    _, batch, channels, pixels = shape
    spec = ttnn.ShardSpec(row_wise(cores, device), [batch * channels, pixels // cores], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, ttnn.BufferType.L1, spec)


def row_wise(cores: int, device: Any) -> Any:
    """The first cores of the grid, row by row, as TT-NN takes them."""
    return ttnn.num_cores_to_corerangeset(cores, device.compute_with_storage_grid_size(), True)


def _added(output: Any, x: Any) -> Any:
    """The sum in the place of the output; x is given back."""
    total = ttnn.add(output, x, output_tensor=output)
    ttnn.deallocate(x)
    return total
