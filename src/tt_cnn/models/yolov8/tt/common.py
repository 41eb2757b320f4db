"""From the reference's weights to those of the card, and pictures to and from it.

Two things are done to the weights beside folding the batch norms:
- channels are filled up with zeros to whole tiles, part by part where parts stand side by side. The card computes whole
  tiles anyway, and shards of whole tiles are joined without being untilized.
- the first convolution of a C2f, whose output would be split, becomes two: nothing is left to split on the card.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration
from tt_cnn.models.yolov8.reference.model import C2f, ConvNormAct
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d, preprocess_model_parameters

TILE = 32
HALVES = ("conv1_kept", "conv1_worked")
"""What a C2f's first convolution becomes: the half that is only kept, and the one that the blocks work on."""


def preprocess(reference: nn.Module, mesh_mapper: Any = None) -> Any:
    """Weights and biases as the builder takes them, nested as the reference is."""

    def by_module(module: nn.Module, name: str) -> dict[str, Any] | None:
        if isinstance(module, C2f):
            return _c2f(module, mesh_mapper)
        if isinstance(module, ConvNormAct):
            return _converted(*_folded(module), mesh_mapper)
        if isinstance(module, nn.Conv2d):
            return _converted(module.weight, module.bias, mesh_mapper, fill_outputs=False)
        return None

    return preprocess_model_parameters(initialize_model=lambda: reference, custom_preprocessor=by_module)


def _c2f(module: C2f, mesh_mapper: Any) -> dict[str, Any]:
    weight, bias = _folded(module.conv1)
    halves = dict(zip(HALVES, zip(weight.chunk(2), bias.chunk(2), strict=True), strict=True))
    blocks = {
        str(i): {name: _converted(*_folded(getattr(block, name)), mesh_mapper) for name in ("conv1", "conv2")}
        for i, block in enumerate(module.blocks)
    }
    return {
        **{name: _converted(*half, mesh_mapper) for name, half in halves.items()},
        "blocks": blocks,
        "conv2": _converted(*_folded(module.conv2), mesh_mapper, parts=2 + len(blocks)),
    }


def _folded(module: ConvNormAct) -> tuple[torch.Tensor, torch.Tensor]:
    return fold_batch_norm2d_into_conv2d(module.conv, module.norm)


def _converted(
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    mesh_mapper: Any,
    *,
    parts: int = 1,
    fill_outputs: bool = True,
) -> dict[str, Any]:
    """`parts` is how many tensors of equal size stand side by side in the input, each filled up by itself."""
    weight = torch.cat([_filled(part, dim=1) for part in weight.detach().chunk(parts, dim=1)], dim=1)
    if fill_outputs:
        weight = _filled(weight, dim=0)
        bias = None if bias is None else _filled(bias, dim=0)
    tensors = Conv2dConfiguration.convert_torch_weight_and_bias_to_ttnn(weight.contiguous(), bias, mesh_mapper)
    return dict(zip(("weight", "bias"), tensors, strict=True))


def _filled(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Zeros up to whole tiles along a dimension; SiLU keeps them zeros. A picture's three channels stay as they are."""
    missing = -values.shape[dim] % TILE
    if not missing or values.shape[dim] < TILE // 2:
        return values
    shape = [*values.shape]
    shape[dim] = missing
    return torch.cat((values, values.new_zeros(shape)), dim=dim)


class TtPicture:
    """(1, 3, H, W) in L1 to the pixels (1, 1, H * W, 8) that the first convolution takes, on as many cores as suit it.

    The shards are those of eight channels, so that the planes of zeros are put below where they are. (TT-NN's
    `convert_to_hwc`, made for this, is predicted to take more than twice as long for 640 x 640.)
    """

    CHANNELS = 8

    def __init__(self, device: Any, resolution: tuple[int, int]) -> None:
        self.device = device
        self.height, self.width = resolution
        grid = device.compute_with_storage_grid_size()
        lines = self.CHANNELS * self.height
        cores = max(n for n in range(1, grid.x * grid.y + 1) if lines % n == 0)
        self.l1_memory_config = self._rows(cores, (lines // cores, self.width))
        pixels = self.height * self.width
        cores = max(n for n in range(1, grid.x * grid.y + 1) if pixels % (n * TILE) == 0)
        self.pixels_memory_config = self._rows(cores, (pixels // cores, self.CHANNELS))
        self.dram_memory_config = self.dram_rows((1, 3, self.height, self.width))

    def __call__(self, x: Any) -> Any:
        """The picture is kept: it is the pipeline's."""
        planes = ttnn.pad(x, [(0, 0), (0, self.CHANNELS - 3), (0, 0), (0, 0)], 0.0)
        turned = ttnn.permute(planes, (0, 2, 3, 1))
        ttnn.deallocate(planes)
        if turned.memory_config() == self.pixels_memory_config:
            pixels = ttnn.reallocate(turned)
        else:
            pixels = ttnn.to_memory_config(turned, self.pixels_memory_config)
            ttnn.deallocate(turned)
        return ttnn.reshape(pixels, (1, 1, self.height * self.width, self.CHANNELS))

    def dram_rows(self, shape: tuple[int, ...]) -> Any:
        """A tensor's rows over the banks of DRAM."""
        layout = ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        return get_memory_config_for_persistent_dram_tensor(shape, layout, self.device.dram_grid_size())

    def _rows(self, cores: int, shape: tuple[int, int]) -> Any:
        grid = ttnn.num_cores_to_corerangeset(cores, self.device.compute_with_storage_grid_size(), True)
        spec = ttnn.ShardSpec(grid, list(shape), ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
