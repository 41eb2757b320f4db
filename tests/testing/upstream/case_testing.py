# SPDX-License-Identifier: Apache-2.0
"""Helpers, as tests of TT-CNN and of its models use them."""

import pytest
import torch
import ttnn
from models.common.utility_functions import comp_pcc, divup, is_wormhole_b0, nearest_32, profiler, torch_random
from models.tt_cnn.tt.builder import Conv2dConfiguration, MaxPool2dConfiguration
from models.tt_cnn.tt.testing import (
    create_random_input_tensor,
    verify_conv2d_from_config,
    verify_maxpool2d_from_config,
)
from tests.ttnn.utils_for_testing import assert_with_pcc, check_with_pcc


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"batch": 2, "input_channels": 32, "fold": True, "pad": True}, (2, 1, 4096, 32)),
        ({"batch": 1, "input_channels": 8, "channel_order": "first", "pad": False}, (1, 1, 8, 4096)),
        ({"batch": 1, "input_channels": 8, "channel_order": "last"}, (1, 1, 4096, 16)),
        ({"batch": 2, "input_channels": 16, "channel_order": "last", "fold": False}, (2, 64, 64, 16)),
    ],
)
def test_random_inputs(options, expected):
    image, tensor = create_random_input_tensor(groups=1, input_height=64, input_width=64, device=None, **options)
    assert image.shape == (options["batch"], options["input_channels"], 64, 64)
    assert ttnn.to_torch(tensor).shape == expected


def test_groups_multiply_the_channels():
    image, _ = create_random_input_tensor(
        batch=1, groups=2, input_channels=8, input_height=32, input_width=32, channel_order="first", device=None
    )
    assert image.shape == (1, 16, 32, 32)


@pytest.mark.parametrize("device_params", [{"l1_small_size": 32768}], indirect=True)
def test_layers_are_verified_from_their_configurations(device, use_program_cache, reset_seeds):
    verify_conv2d_from_config(
        Conv2dConfiguration.with_random_weights(16, 16, 32, 32, 1, (3, 3), padding=(1, 1)), device, 0.99
    )
    verify_maxpool2d_from_config(MaxPool2dConfiguration(16, 16, 32, 1, (2, 2), stride=(2, 2)), device, 0.99)


@pytest.mark.parametrize("mesh_device", [1], indirect=True)
def test_a_mesh_of_one(mesh_device):
    x = ttnn.from_torch(
        torch.ones(1, 1, 32, 32),
        dtype=ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=mesh_device,
        mesh_mapper=ttnn.ReplicateTensorToMesh(mesh_device),
    )
    back = ttnn.to_torch(ttnn.neg(x), mesh_composer=ttnn.ConcatMeshToTensor(mesh_device, dim=0))
    assert torch.equal(back.float(), -torch.ones(1, 1, 32, 32))


def test_helpers():
    x = torch_random((4, 32), -1, 1, dtype=torch.float32)
    assert comp_pcc(x, x)[0] and check_with_pcc(x, x, 0.99)[0]
    assert_with_pcc(x, x + 0.001, 0.99)
    assert (divup(33, 32), nearest_32(33)) == (2, 64)
    assert is_wormhole_b0()
    profiler.clear()
    profiler.start("run")
    profiler.end("run")
    assert profiler.get("run") >= 0
