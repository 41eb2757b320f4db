# SPDX-License-Identifier: Apache-2.0
"""YOLOv4 on the card: the reference's modules, by the same names."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.models.picture import PictureModel, TtPicture
from tt_cnn.models.tt_model import Precision, is_blackhole
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.models.yolov4.tt.common import to_boxes_and_confidences
from tt_cnn.models.yolov4.tt.config import BLACKHOLE_GRID, WORMHOLE_GRID, picture_configuration
from tt_cnn.models.yolov4.tt.decoding import Decoding
from tt_cnn.models.yolov4.tt.layers import Layers


class Downsample1:
    def __init__(self, layers: Layers) -> None:
        self.conv1 = layers.mish("down1.conv1")
        self.conv2 = layers.mish("down1.conv2")
        self.conv3 = layers.mish("down1.conv3", keeps_input=True)
        self.conv4 = layers.mish("down1.conv4")
        self.conv5 = layers.mish("down1.conv5", keeps_input=True)
        self.conv6 = layers.mish("down1.conv6")
        self.conv7 = layers.mish("down1.conv7")
        self.conv8 = layers.mish("down1.conv8")
        self.add = layers.add("down1.add")
        self.concat = layers.concat_like("down1.concat", "down1.conv7")

    def __call__(self, x: Any) -> Any:
        x = self.conv2(self.conv1(x))
        left = self.conv3(x)
        right = self.conv4(x)
        right = self.add(right, self.conv6(self.conv5(right)))
        return self.conv8(self.concat([self.conv7(right), left]))


class Residual:
    def __init__(self, layers: Layers, name: str, blocks: int) -> None:
        self.blocks = [
            (
                layers.mish(f"{name}.blocks.{block}.0", keeps_input=True),
                layers.mish(f"{name}.blocks.{block}.1"),
                layers.add(f"{name}.blocks.{block}.add"),
            )
            for block in range(blocks)
        ]

    def __call__(self, x: Any) -> Any:
        for narrow, wide, add in self.blocks:
            x = add(x, wide(narrow(x)))
        return x


class Downsample:
    """The second to the fifth: they differ in size, in the number of residual blocks and in their sharding."""

    def __init__(self, layers: Layers, name: str, blocks: int, keeps_input: bool = False) -> None:
        self.conv1 = layers.mish(f"{name}.conv1", keeps_input)
        self.conv2 = layers.mish(f"{name}.conv2", keeps_input=True)
        self.conv3 = layers.mish(f"{name}.conv3")
        self.resblock = Residual(layers, f"{name}.resblock", blocks)
        self.conv4 = layers.mish(f"{name}.conv4")
        self.conv5 = layers.mish(f"{name}.conv5")
        self.concat = layers.concat_like(f"{name}.concat", f"{name}.conv4")
        self.skip = layers.placement(f"{name}.skip") if keeps_input else None

    def __call__(self, x: Any) -> Any:
        return self.rest(self.conv1(x))

    def with_skip(self, x: Any) -> tuple[Any, Any]:
        """The output, and the input where it waits for the neck."""
        assert self.skip is not None
        smaller = self.conv1(x)
        skip = self.skip(x)
        return self.rest(smaller), skip

    def rest(self, x: Any) -> Any:
        left = self.conv2(x)
        return self.conv5(self.concat([self.conv4(self.resblock(self.conv3(x))), left]))


class Neck:
    """Takes strides 32, 16 and 8; returns 8, 16 and 32."""

    def __init__(self, layers: Layers) -> None:
        self.conv1 = layers.leaky("neck.conv1")
        self.conv2 = layers.leaky("neck.conv2")
        self.conv3 = layers.leaky("neck.conv3")
        self.pools = [layers.max_pool(f"neck.pools.{pool}") for pool in range(3)]
        self.conv4 = layers.leaky("neck.conv4")
        self.conv5 = layers.leaky("neck.conv5")
        self.conv6 = layers.leaky("neck.conv6")
        self.conv7 = layers.leaky("neck.conv7", keeps_input=True)
        self.twice1 = layers.twice("neck.conv7")
        self.conv8 = layers.leaky("neck.conv8")
        self.conv9 = layers.leaky("neck.conv9")
        self.conv10 = layers.leaky("neck.conv10")
        self.conv11 = layers.leaky("neck.conv11")
        self.conv12 = layers.leaky("neck.conv12")
        self.conv13 = layers.leaky("neck.conv13")
        self.conv14 = layers.leaky("neck.conv14", keeps_input=True)
        self.twice2 = layers.twice("neck.conv14")
        self.conv15 = layers.leaky("neck.conv15")
        self.conv16 = layers.leaky("neck.conv16")
        self.conv17 = layers.leaky("neck.conv17")
        self.conv18 = layers.leaky("neck.conv18")
        self.conv19 = layers.leaky("neck.conv19")
        self.conv20 = layers.leaky("neck.conv20")
        self.pyramid_input = layers.placement("neck.pyramid.input", ttnn.L1_MEMORY_CONFIG)
        self.pooled = layers.placement("neck.pyramid.pooled", ttnn.L1_MEMORY_CONFIG)
        self.pyramid_concat = layers.concat("neck.pyramid.concat")
        self.concat1 = layers.concat("neck.concat1")
        self.concat2 = layers.concat("neck.concat2")
        self.coarse_skip = layers.placement("neck.coarse.skip")
        self.middle_skip = layers.placement("neck.middle.skip")

    def __call__(self, fifth: Any, fourth: Any, third: Any) -> tuple[Any, Any, Any]:
        x = self.pyramid(self.conv3(self.conv2(self.conv1(fifth))))
        coarse = self.conv6(self.conv5(self.conv4(x)))
        smaller = self.conv7(coarse)
        coarse = self.coarse_skip(coarse)
        up = self.twice1(smaller)
        x = self.concat1([self.conv8(fourth), up])
        middle = self.conv13(self.conv12(self.conv11(self.conv10(self.conv9(x)))))
        smaller = self.conv14(middle)
        middle = self.middle_skip(middle)
        up = self.twice2(smaller)
        x = self.concat2([self.conv15(third), up])
        fine = self.conv20(self.conv19(self.conv18(self.conv17(self.conv16(x)))))
        return fine, middle, coarse

    def pyramid(self, x: Any) -> Any:
        """Pools of three sizes beside their input. They start from interleaved memory, to shard it as they like."""
        x = self.pyramid_input(x)
        return self.pyramid_concat([*(self.pooled(pool(x)) for pool in self.pools), x])


class Head:
    """Takes strides 8, 16 and 32; returns the predictions of each."""

    def __init__(self, layers: Layers) -> None:
        self.conv1 = layers.leaky("head.conv1", keeps_input=True)
        self.conv2 = layers.plain("head.conv2")
        self.conv3 = layers.leaky("head.conv3")
        self.conv4 = layers.leaky("head.conv4")
        self.conv5 = layers.leaky("head.conv5")
        self.conv6 = layers.leaky("head.conv6")
        self.conv7 = layers.leaky("head.conv7")
        self.conv8 = layers.leaky("head.conv8")
        self.conv9 = layers.leaky("head.conv9", keeps_input=True)
        self.conv10 = layers.plain("head.conv10")
        self.conv11 = layers.leaky("head.conv11")
        self.conv12 = layers.leaky("head.conv12")
        self.conv13 = layers.leaky("head.conv13")
        self.conv14 = layers.leaky("head.conv14")
        self.conv15 = layers.leaky("head.conv15")
        self.conv16 = layers.leaky("head.conv16")
        self.conv17 = layers.leaky("head.conv17")
        self.conv18 = layers.plain("head.conv18")
        self.concat1 = layers.concat("head.concat1")
        self.concat2 = layers.concat("head.concat2")

    def __call__(self, fine: Any, middle: Any, coarse: Any) -> tuple[Any, Any, Any]:
        small_objects = self.conv2(self.conv1(fine))
        x = self.concat1([self.conv3(fine), middle])
        x = self.conv8(self.conv7(self.conv6(self.conv5(self.conv4(x)))))
        medium_objects = self.conv10(self.conv9(x))
        x = self.concat2([self.conv11(x), coarse])
        x = self.conv16(self.conv15(self.conv14(self.conv13(self.conv12(x)))))
        return small_objects, medium_objects, self.conv18(self.conv17(x))


class TtYOLOv4(PictureModel):
    outputs = ("boxes", "confidences")

    def __init__(
        self,
        reference: YOLOv4,
        device: Any,
        *,
        resolution: tuple[int, int] = (320, 320),
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device, self.resolution, self.batch_size = device, resolution, batch_size
        layers = Layers(reference, device, resolution, batch_size, precision)
        grid = BLACKHOLE_GRID if is_blackhole(device) else WORMHOLE_GRID
        self.picture = TtPicture(picture_configuration(resolution, batch_size, grid), device, "picture")
        self.down1 = Downsample1(layers)
        self.down2 = Downsample(layers, "down2", blocks=2)
        self.down3 = Downsample(layers, "down3", blocks=8)
        self.down4 = Downsample(layers, "down4", blocks=8, keeps_input=True)
        self.down5 = Downsample(layers, "down5", blocks=4, keeps_input=True)
        self.neck = Neck(layers)
        self.head = Head(layers)
        self.decode = Decoding(device, resolution, reference.classes)
        self.dram_output_memory_config = ttnn.DRAM_MEMORY_CONFIG

    def __call__(self, x: Any) -> tuple[Any, Any]:
        return self.decode(self.maps(x))

    def maps(self, x: Any) -> tuple[Any, Any, Any]:
        """The predictions of the three strides, before they are decoded."""
        third = self.down3(self.down2(self.down1(self.picture(x))))
        fourth, third = self.down4.with_skip(third)
        fifth, fourth = self.down5.with_skip(fourth)
        return self.head(*self.neck(fifth, fourth, third))

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return to_boxes_and_confidences(outputs, self.output_composer)
