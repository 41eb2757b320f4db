# SPDX-License-Identifier: Apache-2.0
"""The head alone, on the neck's maps: six branches."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.yolov8.tt.model import Layers, TtBranch, TtHead
from tt_cnn.testing import assert_with_pcc

MAPS = ("neck.up2", "neck.c2f1", "neck.c2f2")


def placed(images: Any, activations: dict[str, torch.Tensor], stride: int) -> Any:
    return (images.in_blocks if stride == 2 else images.in_rows)(activations[MAPS[stride]])


@pytest.mark.parametrize("stride", [0, 1, 2])
@pytest.mark.parametrize("kind", ["boxes", "classes"])
def test_branch(kind: str, stride: int, layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    given = placed(images, activations, stride)
    output = TtBranch(layers, f"head.{kind}.{stride}")(given)
    expected = activations[f"head.{kind}.{stride}"]
    assert given.is_allocated(), "the other branch takes it too"
    assert output.dtype == ttnn.bfloat16
    assert_with_pcc(expected, images.to_torch(output, expected), 0.98)


def test_head_frees_its_maps(layers: Layers, images: Any, activations: dict[str, torch.Tensor]) -> None:
    given = [placed(images, activations, stride) for stride in range(3)]
    boxes, classes = TtHead(layers)(*given)
    assert not any(each.is_allocated() for each in given)
    assert [list(each.shape)[2:] for each in boxes] == [[n, 64] for n in (6400, 1600, 400)]
    assert [list(each.shape)[2:] for each in classes] == [[n, 80] for n in (6400, 1600, 400)]
