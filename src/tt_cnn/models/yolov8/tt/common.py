# SPDX-License-Identifier: Apache-2.0
"""From the reference's weights to those of the card, and images to and from it.

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
from tt_cnn.models.picture import PictureConfiguration
from tt_cnn.models.yolov8.reference.model import C2f, ConvNormAct
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d, preprocess_model_parameters

TILE = 32
PIXEL_CHANNELS = 8
"""Of a pixel on the card, the image's three and zeros."""
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
    """Zeros up to whole tiles along a dimension; SiLU keeps them zeros. An image's three channels stay as they are."""
    missing = -values.shape[dim] % TILE
    if not missing or values.shape[dim] < TILE // 2:
        return values
    shape = [*values.shape]
    shape[dim] = missing
    return torch.cat((values, values.new_zeros(shape)), dim=dim)


def picture_configuration(device: Any, resolution: tuple[int, int], batch_size: int) -> PictureConfiguration:
    """(1, 3, H, W) in L1 to the pixels (1, 1, H * W, 8) that the first convolution takes, on as many cores as suit it.

    The shards are those of eight channels, so that the planes of zeros are put below where they are. (TT-NN's
    `convert_to_hwc`, made for this, is predicted to take more than twice as long for 640 x 640.)
    """
    height, width = resolution
    lines = batch_size * PIXEL_CHANNELS * height
    pixels = batch_size * height * width
    cores = _row_wise(device, dividing=lines)
    of_pixels = _row_wise(device, dividing=pixels // TILE)
    shape = [pixels // of_pixels.num_cores(), PIXEL_CHANNELS]
    spec = ttnn.ShardSpec(of_pixels, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return PictureConfiguration(
        height,
        width,
        batch_size,
        "pad",
        cores,
        padded_channels=PIXEL_CHANNELS,
        waits_padded=True,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec),
        reallocate=True,
    )


def _row_wise(device: Any, dividing: int) -> Any:
    """As many cores as divide a number, row by row."""
    grid = device.compute_with_storage_grid_size()
    cores = max(n for n in range(1, grid.x * grid.y + 1) if dividing % n == 0)
    return ttnn.num_cores_to_corerangeset(cores, grid, True)
