# SPDX-License-Identifier: Apache-2.0
"""Networks of inverted residuals on the card: what MobileNetV2 and EfficientNet-Lite have in common.

A stem halves the image; blocks of three convolutions (expand, depthwise, project) follow; a 1x1 convolution, an
average over the image and a linear layer give the logits. Every tensor in between is sharded over the cores' L1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    AvgPool2dConfiguration,
    Conv2dConfiguration,
    LinearConfiguration,
    PlacementConfiguration,
    TtAdd,
    TtAvgPool2d,
    TtConv2d,
    TtLinear,
    TtPlacement,
    free,
)
from tt_cnn.models.picture import PictureConfiguration, PictureModel, TtPicture


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
    picture: PictureConfiguration
    """It waits on the cores of the convolution."""
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
    """Planes of pixels to pixels of channels, and the first convolution. The image stays where it is."""

    def __init__(self, configuration: StemConfiguration, device: Any, name: str) -> None:
        self.picture = TtPicture(configuration.picture, device, "picture")
        self.layer = TtConv2d(configuration.conv, device, name)

    def __call__(self, picture: Any) -> Any:
        return self.layer(self.picture(picture))


class TtInvertedResidual:
    """The input is given back; where it is added, once that is done."""

    def __init__(self, configuration: BlockConfiguration, device: Any, names: BlockNames) -> None:
        self.expand = (
            None if configuration.expand is None else TtConv2d(configuration.expand, device, names.expand or "")
        )
        self.depthwise = TtConv2d(configuration.depthwise, device, names.depthwise)
        self.project = TtConv2d(configuration.project, device, names.project)
        at = names.project.rpartition(".")[0]
        self.input = TtPlacement(PlacementConfiguration(), device, f"{at}.input")
        self.add = TtAdd(AddConfiguration(), device, f"{at}.add") if configuration.adds_input else None

    def __call__(self, x: Any) -> Any:
        x = self.input(x)
        hidden = x if self.expand is None else self.expand(x)
        output = self.project(self.depthwise(hidden))
        return output if self.add is None else self.add(output, x)


class InvertedResidualNetwork(PictureModel):
    """Images as (1, batch, 3, H * W) on a chip; logits as (1, 1, batch, classes)."""

    outputs: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, configuration: NetworkConfiguration, names: Names, device: Any) -> None:
        self.device = device
        self.batch_size = configuration.batch_size
        self.resolution = configuration.resolution
        self.stem = TtStem(configuration.stem, device, names.stem)
        self.picture = self.stem.picture
        self.blocks = [
            TtInvertedResidual(block, device, named)
            for block, named in zip(configuration.blocks, names.blocks, strict=True)
        ]
        self.head = TtConv2d(configuration.head, device, names.head)
        self.pool_input = TtPlacement(PlacementConfiguration(), device, "pool.input")
        self.pool = TtAvgPool2d(configuration.pool, device, "pool")
        self.linear_input = TtPlacement(PlacementConfiguration(), device, f"{names.linear}.input")
        self.classifier = TtLinear(configuration.linear, device, names.linear)
        self.classes = configuration.linear.out_features
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def __call__(self, x: Any) -> Any:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.classify(x)

    def classify(self, x: Any) -> Any:
        """Logits of what the last block gives, which is given back."""
        means = self.linear_input(self.pool(self.pool_input(self.head(x))))
        logits = self.classifier(means)
        free(means)
        return logits

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        logits = ttnn.to_torch(outputs, mesh_composer=self.output_composer)
        return (logits.float().reshape(-1, self.classes),)


def row_wise(cores: int, device: Any) -> Any:
    """The first cores of the grid, row by row, as TT-NN takes them."""
    return ttnn.num_cores_to_corerangeset(cores, device.compute_with_storage_grid_size(), True)
