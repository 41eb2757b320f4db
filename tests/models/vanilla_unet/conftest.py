# SPDX-License-Identifier: Apache-2.0
"""The reference with the values between its modules, and the same values as the card's layers hand them on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.models.vanilla_unet.tt.config import build_configurations

CORES = 64
TILE = 32


@pytest.fixture(scope="session")
def unet(reference_of: Callable[[str, int], Any]) -> UNet:
    return reference_of("vanilla_unet", 0)


@pytest.fixture(scope="session")
def activations(unet: UNet) -> dict[str, torch.Tensor]:
    """Outputs of the reference's modules for one picture, and the picture itself as `images`."""
    images = model_entry("vanilla_unet").example_input()
    found = {"images": images}

    def noting(name: str) -> Callable[..., None]:
        return lambda module, given, output: found.__setitem__(name, output.clone())

    hooks = [module.register_forward_hook(noting(name)) for name, module in unet.named_children()]
    with torch.no_grad():
        unet(images)
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, l1_small_size=model_entry("vanilla_unet").l1_small_size)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(scope="module")
def layers(unet: UNet, device: Any) -> Mapping[str, Any]:
    """The configurations of the tuned model."""
    return build_configurations(unet, device, (480, 640), 1, "tuned", None)


class Images:
    """Pictures (1, C, H, W) as layers take and give them."""

    def __init__(self, device: Any) -> None:
        self.device = device

    def in_rows(self, image: torch.Tensor, channels: int | None = None) -> Any:
        """Pixels in height shards, row-major, as a pool gives them; with more channels where they are padded."""
        flat = _flat(image)
        if channels is not None:
            flat = torch.nn.functional.pad(flat, (0, channels - flat.shape[-1]))
        shards = self._shards(ceil(flat.shape[2] / CORES), flat.shape[3])
        return ttnn.from_torch(
            flat, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device, memory_config=shards
        )

    def in_tiles(self, image: torch.Tensor, dtype: Any) -> Any:
        """Pixels in height shards of tiles, as a convolution gives them."""
        flat = _flat(image)
        rows, channels = (ceil(size / TILE) * TILE for size in (flat.shape[2] / CORES, flat.shape[3]))
        shards = self._shards(rows, channels)
        return ttnn.from_torch(flat, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=self.device, memory_config=shards)

    def in_dram(self, image: torch.Tensor, dtype: Any) -> Any:
        return ttnn.from_torch(_flat(image), dtype=dtype, layout=ttnn.TILE_LAYOUT, device=self.device)

    def _shards(self, rows: int, channels: int) -> Any:
        return ttnn.create_sharded_memory_config(
            (rows, channels),
            core_grid=ttnn.CoreGrid(x=8, y=8),
            strategy=ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )

    @staticmethod
    def to_torch(x: Any, like: torch.Tensor) -> torch.Tensor:
        _, channels, height, width = like.shape
        return ttnn.to_torch(x).float().reshape(1, height, width, channels).permute(0, 3, 1, 2)


@pytest.fixture
def images(device: Any) -> Images:
    return Images(device)


def _flat(image: torch.Tensor) -> torch.Tensor:
    """(1, C, H, W) as (1, 1, H * W, C)."""
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1]).contiguous()
