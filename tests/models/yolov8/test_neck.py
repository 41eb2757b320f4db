# SPDX-License-Identifier: Apache-2.0
"""The neck alone, on the reference's maps, and what it is made of."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.yolov8.reference.model import YOLOv8, twice
from tt_cnn.models.yolov8.tt.model import Layers, TtC2f, TtMovingConv, TtNeck, TtTwice
from tt_cnn.testing import assert_with_pcc


def test_neck(yolov8s: YOLOv8, layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    maps = [activations[f"backbone.{name}"] for name in ("stage2", "stage3", "sppf")]
    with torch.no_grad():
        expected = yolov8s.neck(*maps)
    fine, middle, coarse = maps
    given = (images.in_rows(fine), images.in_rows(middle), images.in_blocks(coarse))
    outputs = TtNeck(layers)(*given)
    assert not any(each.is_allocated() for each in given)
    for output, golden in zip(outputs, expected, strict=True):
        assert output.memory_config().buffer_type == ttnn.BufferType.L1 and output.is_sharded()
        assert_with_pcc(golden, images.to_torch(output, golden), 0.97)


@pytest.mark.parametrize(
    ("name", "coarser", "finer"),
    [("neck.upsample1", "backbone.sppf", "backbone.stage3"), ("neck.upsample2", "neck.up1", "backbone.stage2")],
)
def test_upsampling(
    name: str, coarser: str, finer: str, layers: Layers, images: Any, activations: dict[str, torch.Tensor]
) -> None:
    """Values are copied; only the way to bfloat8_b and back changes them."""
    place = images.in_blocks if name.endswith("1") else images.in_rows
    small, beside = place(activations[coarser]), images.in_rows(activations[finer])
    larger = TtTwice(layers, name)(small, beside)
    expected = twice(activations[coarser])
    assert larger.dtype == beside.dtype and larger.shape[2] == beside.shape[2]
    assert small.is_allocated()
    assert_with_pcc(expected, images.to_torch(larger, expected), 0.9999)


def test_going_down(layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    """A map in rows is copied to the blocks that the convolution works on."""
    given = images.in_rows(activations["neck.c2f1"])
    output = TtMovingConv(layers, "neck.down2")(given)
    expected = activations["neck.down2"]
    assert given.is_allocated()
    assert output.memory_config().memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
    assert_with_pcc(expected, images.to_torch(output, expected), 0.99)


def test_c2f_of_joined_maps(layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    down, coarse = (images.in_blocks(activations[name]) for name in ("neck.down2", "backbone.sppf"))
    output = TtC2f(layers, "neck.c2f2", residual=False)(TtNeck(layers).concat4((down, coarse), beside=1))
    expected = activations["neck.c2f2"]
    assert_with_pcc(expected, images.to_torch(output, expected), 0.99)
