# SPDX-License-Identifier: Apache-2.0
"""ResNet50 on the card: the reference's modules, each with the configurations of its layers."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import TtAdd, TtAvgPool2d, TtConv2d, TtLinear, TtMaxPool2d, TtPlacement, free
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.models.resnet50.tt.common import convert_parameters
from tt_cnn.models.resnet50.tt.config import (
    BottleneckConfiguration,
    Configurations,
    HeadConfiguration,
    StageConfiguration,
    StemConfiguration,
)
from tt_cnn.models.resnet50.tt.fold import CHANNELS, TtFold
from tt_cnn.models.resnet50.tt.sharding import row_by_row
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor


class TtResNet50(TtModel):
    """Images as planes, (N, 3, H, W), one plane on each core, to logits, (1, 1, N, classes)."""

    outputs = ("logits",)

    def __init__(
        self,
        reference: ResNet50,
        device: Any,
        *,
        resolution: tuple[int, int] = (224, 224),
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device = device
        self.batch_size = batch_size
        self.resolution = resolution
        parameters = convert_parameters(reference, device)
        configurations = Configurations(
            parameters, device, size=resolution[0], batch_size=batch_size, precision=precision
        )
        self.stem = TtStem(configurations.stem(), device)
        self.layer1 = TtStage(configurations.stage(1), device, "layer1")
        self.layer2 = TtStage(configurations.stage(2), device, "layer2")
        self.layer3 = TtStage(configurations.stage(3), device, "layer3")
        self.layer4 = TtStage(configurations.stage(4), device, "layer4")
        self.head = TtHead(configurations.head(), device)
        self._place_tensors(classes=parameters.fc.weight.shape[-1])

    def _place_tensors(self, classes: int) -> None:
        height, width = self.resolution
        layouts = ttnn.TensorMemoryLayout
        banks = self.device.dram_grid_size()
        planes = (self.batch_size, CHANNELS, height, width)
        cores = row_by_row(self.batch_size * CHANNELS, self.device)
        spec = ttnn.ShardSpec(cores, [height, width], ttnn.ShardOrientation.ROW_MAJOR)
        self.l1_input_memory_config = ttnn.MemoryConfig(layouts.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
        self.dram_input_memory_config = get_memory_config_for_persistent_dram_tensor(
            planes, layouts.HEIGHT_SHARDED, banks
        )
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def __call__(self, x: Any) -> Any:
        x = self.stem(x)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.head(x)

    def to_host_input(self, images: torch.Tensor) -> Any:
        return ttnn.from_torch(images, dtype=ttnn.bfloat16, mesh_mapper=self.input_mapper)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        """(N, classes); from a mesh the chips' images one after the other."""
        logits = ttnn.to_torch(outputs, mesh_composer=self.output_composer).float()
        return (logits.reshape(-1, logits.shape[-1]),)


class TtStem:
    """Planes to 64 channels of a sixteenth of the pixels; its input stays with its owner."""

    def __init__(self, configuration: StemConfiguration, device: Any) -> None:
        self.patches = TtFold(configuration.fold, device, "fold")
        self.conv1 = TtConv2d(configuration.conv1, device, "conv1")
        self.maxpool = TtMaxPool2d(configuration.maxpool, device, "maxpool")

    def __call__(self, planes: Any) -> Any:
        return self.maxpool(self.conv1(self.patches(planes)))


class TtBottleneck:
    """Three convolutions; the sum with the shortcut and its ReLU are one op, in place. The input is given back."""

    def __init__(self, configuration: BottleneckConfiguration, device: Any, name: str = "") -> None:
        self.configuration = configuration
        self.conv1 = TtConv2d(configuration.conv1, device, f"{name}.conv1")
        self.conv2 = TtConv2d(configuration.conv2, device, f"{name}.conv2")
        self.conv3 = TtConv2d(configuration.conv3, device, f"{name}.conv3")
        self.downsample: TtConv2d | None = None
        if configuration.downsample is not None:
            self.downsample = TtConv2d(configuration.downsample, device, f"{name}.downsample")
        self.add = TtAdd(configuration.add, device, f"{name}.add")

    def __call__(self, x: Any) -> Any:
        """The sum takes the place of the older summand, higher up in L1: the free memory below stays in one piece."""
        if self.configuration.shortcut_first:
            older = self.shortcut(x)
            newer = self.residual(x)
        else:
            older = self.residual(x)
            newer = self.shortcut(x)
        if self.downsample is not None:
            free(x)
        return self.add(older, newer)

    def residual(self, x: Any) -> Any:
        return self.conv3(self.conv2(self.conv1(x)))

    def shortcut(self, x: Any) -> Any:
        return x if self.downsample is None else self.downsample(x)


class TtStage:
    """Bottlenecks, after the input has been brought into the stage's sharding; the input is given back."""

    def __init__(self, configuration: StageConfiguration, device: Any, name: str = "") -> None:
        self.input = TtPlacement(configuration.input, device, f"{name}.input")
        self.blocks = [
            TtBottleneck(block, device, f"{name}.{index}") for index, block in enumerate(configuration.blocks)
        ]

    def __call__(self, x: Any) -> Any:
        x = self.input(x)
        for block in self.blocks:
            x = block(x)
        return x


class TtHead:
    """The average over each image, and the logits of its classes; the input is given back."""

    def __init__(self, configuration: HeadConfiguration, device: Any) -> None:
        self.avgpool_input = TtPlacement(configuration.avgpool_input, device, "avgpool.input")
        self.avgpool = TtAvgPool2d(configuration.avgpool, device, "avgpool")
        self.fc_input = TtPlacement(configuration.fc_input, device, "fc.input")
        self.fc = TtLinear(configuration.fc, device, "fc")

    def __call__(self, x: Any) -> Any:
        x = self.fc_input(self.avgpool(self.avgpool_input(x)))
        logits = self.fc(x)
        free(x)
        return logits
