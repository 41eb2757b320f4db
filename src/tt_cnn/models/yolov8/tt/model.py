# SPDX-License-Identifier: Apache-2.0
"""YOLOv8 on the builder, module by module as the reference has them."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    BlockShardedStrategyConfiguration,
    ConcatConfiguration,
    PlacementConfiguration,
    TtAdd,
    TtConcat,
    TtConv2d,
    TtMaxPool2d,
    TtPlacement,
    TtUpsample,
    free,
)
from tt_cnn.models.picture import PictureModel, TtPicture
from tt_cnn.models.tt_model import Precision, is_blackhole, weights_mapper
from tt_cnn.models.yolov8.reference.boxes import SIDES, STRIDES
from tt_cnn.models.yolov8.reference.model import YOLOv8
from tt_cnn.models.yolov8.tt.boxes import TtDecode
from tt_cnn.models.yolov8.tt.common import HALVES, picture_configuration, preprocess
from tt_cnn.models.yolov8.tt.config import BLACKHOLE, WORMHOLE, configurations
from tt_cnn.models.yolov8.tt.shards import blocks_on
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

Maps = tuple[Any, Any, Any]
"""One map for each stride: 8, 16, 32."""


class TtYOLOv8(PictureModel):
    """Images (1, 3, H, W) to predictions (1, 1, 4 + classes, boxes), float32 in rows."""

    outputs = ("predictions",)

    def __init__(
        self,
        reference: YOLOv8,
        device: Any,
        *,
        resolution: tuple[int, int] = (640, 640),
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device = device
        self.resolution = resolution
        self.batch_size = batch_size
        self.picture = TtPicture(picture_configuration(device, resolution, batch_size), device, "picture")
        boxes = sum(resolution[0] * resolution[1] // stride**2 for stride in STRIDES)
        self.dram_output_memory_config = get_memory_config_for_persistent_dram_tensor(
            (1, 1, SIDES + reference.classes, boxes),
            ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            device.dram_grid_size(),
        )
        table = (BLACKHOLE if is_blackhole(device) else WORMHOLE)[reference.scale]
        layers = Layers(configurations(preprocess(reference, weights_mapper(device)), table, precision), device)
        self.backbone = TtBackbone(layers)
        self.neck = TtNeck(layers)
        self.head = TtHead(layers)
        self.decode = TtDecode(device, resolution)

    def __call__(self, x: Any) -> Any:
        return self.decode(*self.head(*self.neck(*self.backbone(self.picture(x)))))

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return (ttnn.to_torch(outputs, mesh_composer=self.output_composer).float().squeeze(1),)


class Layers:
    """Makes layers by their names."""

    def __init__(self, configurations: dict[str, Any], device: Any) -> None:
        self.configurations = configurations
        self.device = device

    def conv(self, name: str) -> TtConv2d:
        return TtConv2d(self.configurations[name], self.device, name)

    def pool(self, name: str) -> TtMaxPool2d:
        return TtMaxPool2d(self.configurations[name], self.device, name)

    def upsample(self, name: str) -> TtUpsample:
        return TtUpsample(self.configurations[name], self.device, name)

    def concat(self, name: str, reader: str) -> TtConcat:
        """On the cores of a part, for the convolution `reader`. What is bfloat16 is too large to be left below the hole
        where the parts were."""
        moves = self.configurations[reader].activation_dtype == ttnn.bfloat16
        return TtConcat(ConcatConfiguration("shards", reallocate=moves), self.device, name)

    def add(self, name: str) -> TtAdd:
        return TtAdd(AddConfiguration(in_place=False), self.device, name)

    def placement(self, name: str, memory_config: Any = None) -> TtPlacement:
        return TtPlacement(PlacementConfiguration(memory_config), self.device, name)

    def blocks(self, name: str) -> int:
        """How many blocks a C2f has."""
        return sum(each.startswith(f"{name}.blocks.") and each.endswith("conv1") for each in self.configurations)


class TtBottleneck:
    """Keeps its input: it is a part of the C2f's output too."""

    def __init__(self, layers: Layers, name: str, residual: bool) -> None:
        self.conv1 = layers.conv(f"{name}.conv1")
        self.conv2 = layers.conv(f"{name}.conv2")
        self.add = layers.add(f"{name}.add") if residual else None

    def __call__(self, x: Any) -> Any:
        y = self.conv2(self.conv1(x))
        return y if self.add is None else self.add(x, y, kept=x)


class TtC2f:
    def __init__(self, layers: Layers, name: str, residual: bool) -> None:
        self.conv1_kept, self.conv1_worked = (layers.conv(f"{name}.{half}") for half in HALVES)
        blocks = range(layers.blocks(name))
        self.blocks = [TtBottleneck(layers, f"{name}.blocks.{i}", residual) for i in blocks]
        self.concat = layers.concat(f"{name}.concat", f"{name}.conv2")
        self.conv2 = layers.conv(f"{name}.conv2")

    def __call__(self, x: Any) -> Any:
        parts = [self.conv1_kept(x), self.conv1_worked(x)]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.conv2(self.concat(parts))


class TtMovingConv:
    """A convolution that keeps its input. Where it works on blocks on a grid of its own, a copy is moved there."""

    def __init__(self, layers: Layers, name: str) -> None:
        self.input = layers.placement(f"{name}.input", _blocks_of(layers.configurations[name]))
        self.conv = layers.conv(name)

    def __call__(self, x: Any) -> Any:
        moved = self.input(x, keep_input=True)
        y = self.conv(moved)
        if moved is not x:
            free(moved)
        return y


def _blocks_of(configuration: Any) -> Any:
    """The blocks that a convolution's input is cut into on the grid that the convolution is given, if it is."""
    sharding = configuration.sharding_strategy
    if not isinstance(sharding, BlockShardedStrategyConfiguration) or sharding.override_core_grid is None:
        return None
    pixels = configuration.batch_size * configuration.input_height * configuration.input_width
    return blocks_on(sharding.override_core_grid, pixels, configuration.in_channels)


class TtStage:
    def __init__(self, layers: Layers, name: str) -> None:
        self.down = TtMovingConv(layers, f"{name}.down")
        self.c2f = TtC2f(layers, f"{name}.c2f", residual=True)

    def __call__(self, x: Any) -> Any:
        return self.c2f(self.down(x))


class TtSPPF:
    def __init__(self, layers: Layers, name: str) -> None:
        self.conv1 = layers.conv(f"{name}.conv1")
        self.pool = layers.pool(f"{name}.pool")
        self.concat = layers.concat(f"{name}.concat", f"{name}.conv2")
        self.conv2 = layers.conv(f"{name}.conv2")

    def __call__(self, x: Any) -> Any:
        parts = [self.conv1(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.conv2(self.concat(parts))


class TtBackbone:
    def __init__(self, layers: Layers) -> None:
        self.stem = layers.conv("backbone.stem")
        self.stage1 = TtStage(layers, "backbone.stage1")
        self.stage2 = TtStage(layers, "backbone.stage2")
        self.stage3 = TtStage(layers, "backbone.stage3")
        self.stage4 = TtStage(layers, "backbone.stage4")
        self.sppf = TtSPPF(layers, "backbone.sppf")
        self.fine_skip = layers.placement("backbone.stage2.skip")
        self.middle_skip = layers.placement("backbone.stage3.skip")

    def __call__(self, x: Any) -> Maps:
        fine = self.stage2(self.stage1(self.stem(x)))
        smaller = self.stage3.down(fine)
        fine = self.fine_skip(fine)
        middle = self.stage3.c2f(smaller)
        smaller = self.stage4.down(middle)
        middle = self.middle_skip(middle)
        return fine, middle, self.sppf(self.stage4.c2f(smaller))


class TtTwice:
    """Nearest upsampling in the shards that the input has, row-major as the op wants it; then tiles again, in the dtype
    of the map that it will stand beside. The input is kept.
    """

    def __init__(self, layers: Layers, name: str) -> None:
        self.input = layers.placement(f"{name}.input")
        self.upsample = layers.upsample(name)

    def __call__(self, x: Any, beside: Any) -> Any:
        moved = self.input(x, keep_input=True)
        rows = moved if moved.layout == ttnn.ROW_MAJOR_LAYOUT else ttnn.to_layout(moved, ttnn.ROW_MAJOR_LAYOUT)
        larger = self.upsample(rows)
        for used in (moved, rows):
            if used is not x:
                free(used)
        flat = ttnn.reshape(larger, (1, 1, beside.shape[2], x.shape[3]))
        tiles = ttnn.to_layout(flat, ttnn.TILE_LAYOUT, dtype=beside.dtype)
        ttnn.deallocate(flat)
        return tiles


class TtNeck:
    """Frees its inputs. What is new is moved to the cores of the map that it is joined with."""

    def __init__(self, layers: Layers) -> None:
        self.upsample1 = TtTwice(layers, "neck.upsample1")
        self.concat1 = layers.concat("neck.up1.joined", "neck.up1.conv1_kept")
        self.up1 = TtC2f(layers, "neck.up1", residual=False)
        self.upsample2 = TtTwice(layers, "neck.upsample2")
        self.concat2 = layers.concat("neck.up2.joined", "neck.up2.conv1_kept")
        self.up2 = TtC2f(layers, "neck.up2", residual=False)
        self.down1 = TtMovingConv(layers, "neck.down1")
        self.concat3 = layers.concat("neck.c2f1.joined", "neck.c2f1.conv1_kept")
        self.c2f1 = TtC2f(layers, "neck.c2f1", residual=False)
        self.down2 = TtMovingConv(layers, "neck.down2")
        self.concat4 = layers.concat("neck.c2f2.joined", "neck.c2f2.conv1_kept")
        self.c2f2 = TtC2f(layers, "neck.c2f2", residual=False)
        self.middle_skip = layers.placement("neck.up1.skip")
        self.coarse_skip = layers.placement("neck.coarse.skip")

    def __call__(self, fine: Any, middle: Any, coarse: Any) -> Maps:
        larger = self.upsample1(coarse, middle)
        coarse = self.coarse_skip(coarse)
        middle = self.up1(self.concat1((larger, middle), beside=1))
        larger = self.upsample2(middle, fine)
        middle = self.middle_skip(middle)
        fine = self.up2(self.concat2((larger, fine), beside=1))
        middle = self.c2f1(self.concat3((self.down1(fine), middle), beside=1))
        coarse = self.c2f2(self.concat4((self.down2(middle), coarse), beside=1))
        return fine, middle, coarse


class TtBranch:
    """Keeps its input: the other branch takes it too."""

    def __init__(self, layers: Layers, name: str) -> None:
        self.conv1 = TtMovingConv(layers, f"{name}.conv1")
        self.conv2 = layers.conv(f"{name}.conv2")
        self.conv3 = layers.conv(f"{name}.conv3")

    def __call__(self, x: Any) -> Any:
        return self.conv3(self.conv2(self.conv1(x)))


class TtHead:
    """Frees its inputs; returns the maps of boxes and those of classes."""

    def __init__(self, layers: Layers) -> None:
        self.boxes = [TtBranch(layers, f"head.boxes.{i}") for i in range(3)]
        self.classes = [TtBranch(layers, f"head.classes.{i}") for i in range(3)]

    def __call__(self, *maps: Any) -> tuple[list[Any], list[Any]]:
        boxes, classes = [], []
        for x, for_boxes, for_classes in zip(maps, self.boxes, self.classes, strict=True):
            boxes.append(for_boxes(x))
            classes.append(for_classes(x))
            free(x)
        return boxes, classes
