# SPDX-License-Identifier: Apache-2.0
"""UNet on the card: encoders whose outputs wait as skips, a bottleneck, decoders that take them up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import PlacementConfiguration, TtConcat, TtConv2d, TtConvTranspose2d, TtMaxPool2d, TtPlacement, free
from tt_cnn.models.picture import PictureModel, TtPicture
from tt_cnn.models.tt_model import Precision, is_blackhole, weights_mapper
from tt_cnn.models.vanilla_unet.reference.model import DEPTH, UNet
from tt_cnn.models.vanilla_unet.tt.common import to_mask
from tt_cnn.models.vanilla_unet.tt.config import GRIDS, build_configurations, height_shards
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor


class TtBlock:
    """Two convolutions."""

    def __init__(self, configurations: Mapping[str, Any], device: Any, name: str) -> None:
        self.conv1 = TtConv2d(configurations[f"{name}.conv1"], device, f"{name}.conv1")
        self.conv2 = TtConv2d(configurations[f"{name}.conv2"], device, f"{name}.conv2")

    def __call__(self, x: Any) -> Any:
        return self.conv2(self.conv1(x))


class TtEncoder:
    """A block; its output twice, where skips wait and in L1 at half the size."""

    def __init__(self, configurations: Mapping[str, Any], device: Any, level: int) -> None:
        self.block = TtBlock(configurations, device, f"encoder{level}")
        self.skip = TtPlacement(configurations[f"skip{level}"], device, f"skip{level}")
        self.pool = TtMaxPool2d(configurations[f"pool{level}"], device, f"pool{level}")

    def __call__(self, x: Any) -> tuple[Any, Any]:
        x = self.block(x)
        skip = self.skip(x, keep_input=True)
        smaller = self.pool(x)
        if skip is not x:
            free(x)
        return smaller, skip


class TtDecoder:
    """Twice the size, the encoder's output beside it, and a block."""

    def __init__(self, configurations: Mapping[str, Any], device: Any, level: int) -> None:
        name = f"decoder{level}"
        self.upconv = TtConvTranspose2d(configurations[f"upconv{level}"], device, f"upconv{level}")
        self.concat = TtConcat(configurations[f"{name}.concat"], device, f"{name}.concat")
        self.middle = TtPlacement(configurations[f"{name}.middle"], device, f"{name}.middle")
        self.block = TtBlock(configurations, device, name)

    def __call__(self, x: Any, skip: Any) -> Any:
        both = self.concat([self.upconv(x), skip])
        y = self.block.conv1(both)
        free(both)
        return self.block.conv2(self.middle(y))


class TtUNet(PictureModel):
    """Takes planes, (1, 1, 3, H * W) in width shards, and gives the mask's plane, (1, 1, 1, H * W)."""

    outputs = ("mask",)

    def __init__(
        self,
        reference: UNet,
        device: Any,
        *,
        resolution: tuple[int, int],
        batch_size: int = 1,
        precision: Precision = "tuned",
    ) -> None:
        self.device = device
        self.resolution = resolution
        self.batch_size = batch_size
        layers = build_configurations(
            reference, device, resolution, batch_size, precision, mesh_mapper=weights_mapper(device)
        )
        self.picture = TtPicture(layers["picture"], device, "picture")
        self.encoders = [TtEncoder(layers, device, level) for level in range(1, DEPTH + 1)]
        self.bottleneck = TtBlock(layers, device, "bottleneck")
        self.decoders = [TtDecoder(layers, device, level) for level in range(DEPTH, 0, -1)]
        self.conv = TtConv2d(layers["conv"], device, "conv")
        self.mask_input = TtPlacement(PlacementConfiguration(), device, "mask.input")
        self.mask_shards = height_shards(GRIDS[is_blackhole(device)], batch_size * resolution[0] * resolution[1], 1)
        self.dram_output_memory_config = get_memory_config_for_persistent_dram_tensor(
            (1, 1, layers["conv"].out_channels, resolution[0] * resolution[1]),
            ttnn.TensorMemoryLayout.WIDTH_SHARDED,
            device.dram_grid_size(),
        )

    def __call__(self, x: Any) -> Any:
        x = self.picture(x)
        skips = []
        for encoder in self.encoders:
            x, skip = encoder(x)
            skips.append(skip)
        x = self.bottleneck(x)
        for decoder in self.decoders:
            x = decoder(x, skips.pop())
        pixels = self.conv(x)
        pixels = self.mask_input(pixels)
        if not pixels.is_sharded():  # TT-NN turns shards into planes, and nothing else
            interleaved, pixels = pixels, ttnn.to_memory_config(pixels, self.mask_shards)
            free(interleaved)
        mask = ttnn.experimental.convert_to_chw(pixels, dtype=ttnn.bfloat16)
        ttnn.deallocate(pixels)
        return ttnn.move(mask)

    def to_torch(self, outputs: Any) -> tuple[torch.Tensor, ...]:
        return (to_mask(outputs, self.resolution, self.output_composer),)
