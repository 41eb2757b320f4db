# SPDX-License-Identifier: Apache-2.0
"""Each part of the backbone alone, on what the reference's gets."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.picture import TtPicture
from tt_cnn.models.yolov8.tt.common import picture_configuration
from tt_cnn.models.yolov8.tt.model import Layers, TtC2f, TtSPPF, TtStage
from tt_cnn.testing import assert_equal, assert_with_pcc

BEFORE = {1: "backbone.stem", 2: "backbone.stage1", 3: "backbone.stage2", 4: "backbone.stage3"}


def test_picture_becomes_pixels(device: Any, activations: dict[str, torch.Tensor]) -> None:
    pictures = activations["images"].bfloat16().float()
    picture = TtPicture(picture_configuration(device, (640, 640), 1), device)
    host = ttnn.from_torch(pictures, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    given = ttnn.to_device(host, device, memory_config=picture.l1_memory_config)
    pixels = ttnn.to_torch(picture(given)).float().reshape(640, 640, 8)
    assert given.is_allocated()
    assert_equal(pictures[0].permute(1, 2, 0), pixels[..., :3])
    assert not pixels[..., 3:].any()


def test_stem(device: Any, layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    picture = TtPicture(picture_configuration(device, (640, 640), 1), device)
    host = ttnn.from_torch(activations["images"], dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)
    given = picture(ttnn.to_device(host, device, memory_config=picture.l1_memory_config))
    expected = activations["backbone.stem"]
    assert_with_pcc(expected, images.to_torch(layers.conv("backbone.stem")(given), expected), 0.999)


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_stage(number: int, layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    given = images.in_rows(activations[BEFORE[number]])
    output = TtStage(layers, f"backbone.stage{number}")(given)
    expected = activations[f"backbone.stage{number}"]
    assert output.memory_config().buffer_type == ttnn.BufferType.L1 and output.is_sharded()
    assert given.is_allocated() == (number > 2), "the maps that the neck takes are kept"
    assert_with_pcc(expected, images.to_torch(output, expected), 0.99)


def test_c2f(layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    given = images.in_rows(activations["backbone.stage1.down"])
    output = TtC2f(layers, "backbone.stage1.c2f", residual=True)(given)
    expected = activations["backbone.stage1.c2f"]
    assert not given.is_allocated()
    assert_with_pcc(expected, images.to_torch(output, expected), 0.995)


def test_sppf(layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    output = TtSPPF(layers, "backbone.sppf")(images.in_blocks(activations["backbone.stage4"]))
    expected = activations["backbone.sppf"]
    assert_with_pcc(expected, images.to_torch(output, expected), 0.99)
