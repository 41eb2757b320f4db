"""YOLOv8 on the builder, module by module as the reference has them."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import BlockShardedStrategyConfiguration, TtConv2d, TtMaxPool2d, TtUpsample
from tt_cnn.models.tt_model import Precision, TtModel, is_blackhole, weights_mapper
from tt_cnn.models.yolov8.reference.boxes import SIDES, STRIDES
from tt_cnn.models.yolov8.reference.model import YOLOv8
from tt_cnn.models.yolov8.tt.boxes import TtDecode
from tt_cnn.models.yolov8.tt.common import HALVES, TtPicture, preprocess
from tt_cnn.models.yolov8.tt.config import BLACKHOLE, WORMHOLE, configurations
from tt_cnn.models.yolov8.tt.shards import in_blocks, like, side_by_side

Maps = tuple[Any, Any, Any]
"""One map for each stride: 8, 16, 32."""


class TtYOLOv8(TtModel):
    """Pictures (1, 3, H, W) to predictions (1, 1, 4 + classes, boxes), float32 in rows."""

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
        self.picture = TtPicture(device, resolution)
        self.l1_input_memory_config = self.picture.l1_memory_config
        self.dram_input_memory_config = self.picture.dram_memory_config
        boxes = sum(resolution[0] * resolution[1] // stride**2 for stride in STRIDES)
        self.dram_output_memory_config = self.picture.dram_rows((1, 1, SIDES + reference.classes, boxes))
        table = (BLACKHOLE if is_blackhole(device) else WORMHOLE)[reference.scale]
        layers = Layers(configurations(preprocess(reference, weights_mapper(device)), table, precision), device)
        self.backbone = TtBackbone(layers)
        self.neck = TtNeck(layers)
        self.head = TtHead(layers)
        self.decode = TtDecode(device, resolution)

    def __call__(self, x: Any) -> Any:
        return self.decode(*self.head(*self.neck(*self.backbone(self.picture(x)))))

    def to_host_input(self, images: torch.Tensor) -> Any:
        return ttnn.from_torch(images, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=self.input_mapper)

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

    def blocks(self, name: str) -> int:
        """How many blocks a C2f has."""
        return sum(each.startswith(f"{name}.blocks.") and each.endswith("conv1") for each in self.configurations)


class TtBottleneck:
    """Keeps its input: it is a part of the C2f's output too."""

    def __init__(self, layers: Layers, name: str, residual: bool) -> None:
        self.conv1 = layers.conv(f"{name}.conv1")
        self.conv2 = layers.conv(f"{name}.conv2")
        self.residual = residual

    def __call__(self, x: Any) -> Any:
        y = self.conv2(self.conv1(x))
        if not self.residual:
            return y
        total = ttnn.add(x, y, memory_config=y.memory_config())
        ttnn.deallocate(y)
        return total


class TtC2f:
    def __init__(self, layers: Layers, name: str, residual: bool) -> None:
        self.conv1_kept, self.conv1_worked = (layers.conv(f"{name}.{half}") for half in HALVES)
        blocks = range(layers.blocks(name))
        self.blocks = [TtBottleneck(layers, f"{name}.blocks.{i}", residual) for i in blocks]
        self.conv2 = layers.conv(f"{name}.conv2")

    def __call__(self, x: Any) -> Any:
        parts = [self.conv1_kept(x), self.conv1_worked(x)]
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.conv2(side_by_side(parts))


class TtMovingConv:
    """A convolution that keeps its input. Where it works on blocks on a grid of its own, a copy is moved there."""

    def __init__(self, layers: Layers, name: str) -> None:
        self.conv = layers.conv(name)
        sharding = self.conv.configuration.sharding_strategy
        self.grid = sharding.override_core_grid if isinstance(sharding, BlockShardedStrategyConfiguration) else None

    def __call__(self, x: Any) -> Any:
        moved = x if self.grid is None else in_blocks(x, self.grid)
        y = self.conv(moved)
        if moved is not x:
            ttnn.deallocate(moved)
        return y


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
        self.conv2 = layers.conv(f"{name}.conv2")

    def __call__(self, x: Any) -> Any:
        parts = [self.conv1(x)]
        for _ in range(3):
            parts.append(self.pool(parts[-1]))
        return self.conv2(side_by_side(parts))


class TtBackbone:
    def __init__(self, layers: Layers) -> None:
        self.stem = layers.conv("backbone.stem")
        self.stage1 = TtStage(layers, "backbone.stage1")
        self.stage2 = TtStage(layers, "backbone.stage2")
        self.stage3 = TtStage(layers, "backbone.stage3")
        self.stage4 = TtStage(layers, "backbone.stage4")
        self.sppf = TtSPPF(layers, "backbone.sppf")

    def __call__(self, x: Any) -> Maps:
        fine = self.stage2(self.stage1(self.stem(x)))
        middle = self.stage3(fine)
        return fine, middle, self.sppf(self.stage4(middle))


class TtTwice:
    """Nearest upsampling in the shards that the input has, row-major as the op wants it; then tiles again, moved to the
    cores of the map that it will stand beside. The input is kept.
    """

    def __init__(self, layers: Layers, name: str) -> None:
        self.upsample = layers.upsample(name)

    def __call__(self, x: Any, beside: Any) -> Any:
        rows = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
        larger = self.upsample(rows)
        ttnn.deallocate(rows)
        flat = ttnn.reshape(larger, (1, 1, beside.shape[2], x.shape[3]))
        tiles = ttnn.to_layout(flat, ttnn.TILE_LAYOUT, dtype=beside.dtype)
        ttnn.deallocate(flat)
        return like(tiles, beside)


class TtNeck:
    """Frees its inputs."""

    def __init__(self, layers: Layers) -> None:
        self.upsample1 = TtTwice(layers, "neck.upsample1")
        self.up1 = TtC2f(layers, "neck.up1", residual=False)
        self.upsample2 = TtTwice(layers, "neck.upsample2")
        self.up2 = TtC2f(layers, "neck.up2", residual=False)
        self.down1 = TtMovingConv(layers, "neck.down1")
        self.c2f1 = TtC2f(layers, "neck.c2f1", residual=False)
        self.down2 = TtMovingConv(layers, "neck.down2")
        self.c2f2 = TtC2f(layers, "neck.c2f2", residual=False)

    def __call__(self, fine: Any, middle: Any, coarse: Any) -> Maps:
        middle = self.up1(side_by_side((self.upsample1(coarse, middle), middle)))
        fine = self.up2(side_by_side((self.upsample2(middle, fine), fine)))
        middle = self.c2f1(side_by_side((like(self.down1(fine), middle), middle)))
        coarse = self.c2f2(side_by_side((like(self.down2(middle), coarse), coarse)))
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
            ttnn.deallocate(x)
        return boxes, classes
