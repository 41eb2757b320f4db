# SPDX-License-Identifier: Apache-2.0
"""The reference of the scale s with the values between its modules, and such values as the card's layers take them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.models import model_entry
from tt_cnn.models.yolov8.reference.model import YOLOv8
from tt_cnn.models.yolov8.tt.common import preprocess
from tt_cnn.models.yolov8.tt.config import WORMHOLE, configurations
from tt_cnn.models.yolov8.tt.model import Layers
from tt_cnn.models.yolov8.tt.shards import blocks_on

TILE = 32
GRIDS = {"x": (5, 8), "s": (8, 8)}


def outputs_of(model: nn.Module, images: torch.Tensor, depth: int) -> dict[str, torch.Tensor]:
    """Outputs of the modules down to so many dots in their names, and the picture itself as `images`."""
    found = {"images": images}

    def noting(name: str) -> Callable[..., None]:
        return lambda module, given, output: found.__setitem__(name, output)

    named = [(name, module) for name, module in model.named_modules() if name.count(".") <= depth]
    hooks = [module.register_forward_hook(noting(name)) for name, module in named]
    with torch.no_grad():
        model(images)
    for hook in hooks:
        hook.remove()
    return found


@pytest.fixture(scope="session")
def yolov8s(reference_of: Callable[[str, int], Any]) -> YOLOv8:
    return reference_of("yolov8s", 0)


@pytest.fixture(scope="session")
def activations(yolov8s: YOLOv8) -> dict[str, torch.Tensor]:
    return outputs_of(yolov8s, model_entry("yolov8s").example_input(), depth=2)


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, l1_small_size=model_entry("yolov8s").l1_small_size)
    yield opened
    ttnn.close_device(opened)


@pytest.fixture(scope="module")
def layers(yolov8s: YOLOv8, device: Any) -> Layers:
    return Layers(configurations(preprocess(yolov8s), WORMHOLE["s"], "tuned"), device)


class Images:
    """Maps (1, C, H, W) as layers take and give them: flattened, in tiles of bfloat8_b, channels filled up."""

    def __init__(self, device: Any, scale: str = "s") -> None:
        self.device = device
        columns, rows = GRIDS[scale]
        last = ttnn.CoreCoord(columns - 1, rows - 1)
        self.blocks = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), last)])

    def in_rows(self, image: torch.Tensor) -> Any:
        flat = _flat(image)
        grid = self.device.compute_with_storage_grid_size()
        tiles = -(-flat.shape[2] // TILE)
        each = -(-tiles // (grid.x * grid.y))
        spec = ttnn.ShardSpec(
            ttnn.num_cores_to_corerangeset(-(-tiles // each), grid, True),
            [each * TILE, flat.shape[3]],
            ttnn.ShardOrientation.ROW_MAJOR,
        )
        config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
        return self._placed(flat, config)

    def in_blocks(self, image: torch.Tensor) -> Any:
        flat = _flat(image)
        return self._placed(flat, blocks_on(self.blocks, flat.shape[2], flat.shape[3]))

    def _placed(self, flat: torch.Tensor, config: Any) -> Any:
        return ttnn.from_torch(
            flat, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=self.device, memory_config=config
        )

    @staticmethod
    def to_torch(x: Any, like: torch.Tensor) -> torch.Tensor:
        _, channels, height, width = like.shape
        return ttnn.to_torch(x).float().reshape(1, height, width, -1)[..., :channels].permute(0, 3, 1, 2)


@pytest.fixture
def images(device: Any) -> Images:
    return Images(device)


def _flat(image: torch.Tensor) -> torch.Tensor:
    """(1, C, H, W) as (1, 1, H * W, C), C a multiple of a tile's width."""
    flat = image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])
    return torch.nn.functional.pad(flat, (0, -flat.shape[3] % TILE)).contiguous()
