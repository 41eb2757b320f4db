# SPDX-License-Identifier: Apache-2.0
"""The helpers that lay out masks and weights for `group_norm`."""

from __future__ import annotations

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.tensors.conversion import from_torch
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up

_MOST_ELEMENTS = 2**26
"""Of a mask: far beyond any network's, and small enough to be made at once."""


def create_group_norm_weight_bias_rm(
    input_tensor: torch.Tensor, num_channels: int, num_cores_x: int = 1
) -> torch.Tensor:
    """A vector of channels as (1, 1, tiles, 32): each core's channels padded to whole tiles."""
    fatal(num_cores_x > 0, f"num_cores_x ({num_cores_x}) must be greater than 0")
    fatal(
        num_channels % num_cores_x == 0,
        f"num_channels ({num_channels}) must be divisible by num_cores_x ({num_cores_x})",
    )
    fatal(
        input_tensor.numel() == num_channels,
        f"the tensor has {input_tensor.numel()} elements for {num_channels} channels",
    )
    share = num_channels // num_cores_x
    padded = div_up(share, TILE_SIZE) * TILE_SIZE
    rows = torch.nn.functional.pad(input_tensor.reshape(num_cores_x, share), (0, padded - share))
    return rows.reshape(1, 1, -1, TILE_SIZE)


def create_group_norm_input_mask(
    num_channel: int, num_groups: int, num_cores_across_channel: int, dtype: DataType = DataType.BFLOAT16
) -> Tensor | None:
    """For each group ones over its channels, within the tiles that the group touches: (1, groups, 32, width)."""
    for name, number in (("num_groups", num_groups), ("num_cores_across_channel", num_cores_across_channel)):
        fatal(number > 0, f"{name} ({number}) must be greater than 0")
    fatal(num_channel >= 0, f"num_channel ({num_channel}) must be 0 or more")
    per_group = num_channel // num_groups
    width = _mask_tiles(per_group) * TILE_SIZE
    fatal(
        num_groups * TILE_SIZE * width <= _MOST_ELEMENTS,
        f"the mask of {num_groups} groups of {per_group} channels would have {num_groups * TILE_SIZE * width} elements",
    )
    mask = torch.zeros(1, num_groups, TILE_SIZE, width)
    groups_per_core = max(1, num_groups // num_cores_across_channel)
    for group in range(num_groups):
        start = group % groups_per_core * per_group % TILE_SIZE
        mask[0, group, :, start : start + per_group] = 1.0
    return from_torch(mask, dtype, layout=Layout.TILE)


def _mask_tiles(per_group: int) -> int:
    """Tiles that a group can touch, wherever in a tile it starts."""
    start, most = 0, 0
    for _ in range(TILE_SIZE):
        most = max(most, div_up(start + per_group, TILE_SIZE))
        start = (start + per_group) % TILE_SIZE
    return most
