# SPDX-License-Identifier: Apache-2.0
"""Random inputs in the forms that models take."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.testing import create_random_input_tensor, pad_channels_up_to_target


@pytest.mark.parametrize(
    ("order", "fold", "pad", "shape"),
    [
        ("last", True, True, (2, 1, 48, 16)),
        ("last", True, False, (2, 1, 48, 3)),
        ("last", False, True, (2, 6, 8, 16)),
        ("first", True, True, (2, 1, 16, 48)),
        ("first", True, False, (2, 1, 3, 48)),
        ("first", False, False, (2, 3, 6, 8)),
    ],
)
def test_forms(order: Any, fold: bool, pad: bool, shape: tuple[int, ...]) -> None:
    image, tensor = create_random_input_tensor(2, 1, 3, 6, 8, order, fold, pad)
    assert image.shape == (2, 3, 6, 8) and image.dtype == torch.float32
    assert tuple(tensor.shape) == shape and tensor.dtype == ttnn.bfloat16
    value = ttnn.to_torch(tensor).float()
    channels = shape[-1 if order == "last" else (2 if fold else 1)]
    back = value.reshape(2, 6, 8, channels).permute(0, 3, 1, 2) if order == "last" else value.reshape(2, channels, 6, 8)
    assert torch.equal(back[:, :3], image), "the torch tensor holds what bfloat16 holds"
    assert not back[:, 3:].any()


def test_dtype_groups_layout_and_placement(card: Any) -> None:
    image, tensor = create_random_input_tensor(
        batch=1,
        groups=2,
        input_channels=4,
        input_height=4,
        input_width=8,
        ttnn_dtype=ttnn.bfloat8_b,
        device=card,
        memory_config=ttnn.L1_MEMORY_CONFIG,
        torch_dtype=torch.bfloat16,
    )
    assert image.shape == (1, 8, 4, 8) and image.dtype == torch.bfloat16
    assert tensor.dtype == ttnn.bfloat8_b and tensor.layout == ttnn.TILE_LAYOUT
    assert tensor.memory_config() == ttnn.L1_MEMORY_CONFIG


def test_a_mesh_gets_a_part_each() -> None:
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2))
    mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
    _, tensor = create_random_input_tensor(batch_size=4, input_height=4, input_width=4, mesh_mapper=mapper)
    assert tuple(tensor.shape) == (2, 1, 16, 16)
    ttnn.close_mesh_device(mesh)


def test_wrong_use_is_said() -> None:
    with pytest.raises(ValueError, match="channel_order is 'middle'; it must be 'first' or 'last'"):
        create_random_input_tensor(channel_order="middle")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has 3 dimensions; it must have 4"):
        pad_channels_up_to_target(torch.zeros(1, 2, 3))
    assert pad_channels_up_to_target(torch.zeros(1, 20, 2, 2)).shape == (1, 20, 2, 2)
