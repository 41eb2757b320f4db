# SPDX-License-Identifier: Apache-2.0
"""The stem: patches, the convolution on them, the max pool."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import conv2d, pad

from tests.models.resnet50.modules import VARIANTS, Activations
from tt_cnn import ttnn
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.models.resnet50.tt.common import folded_weight
from tt_cnn.models.resnet50.tt.model import TtResNet50

PCC = {"tuned": 0.999, "bfloat16": 0.9995}


@pytest.mark.parametrize(("card", "batch_size", "precision"), VARIANTS)
def test_the_stem_is_near_the_references(
    card: str, batch_size: int, precision: str, module_pcc: Callable[..., float]
) -> None:
    assert module_pcc("stem", card, batch_size, precision) >= PCC[precision]


def test_a_convolution_of_patches_is_one_of_pixels() -> None:
    torch.manual_seed(0)
    weight, images = torch.randn(64, 3, 7, 7, dtype=torch.float64), torch.randn(2, 3, 32, 32, dtype=torch.float64)
    patches = _patches(images)
    assert torch.allclose(conv2d(patches, folded_weight(weight)), conv2d(images, weight, stride=2, padding=3))


def test_patches_on_the_card_are_those_of_torch(
    resnet50: ResNet50, activations: Callable[[int], Activations], open_device: Callable[..., Any]
) -> None:
    images = activations(1)["images"].bfloat16().float()
    model = TtResNet50(resnet50, open_device())
    found = ttnn.to_torch(model.stem.patches(model.place(images))).float()
    expected = _patches(images)
    assert torch.equal(found.reshape(1, 115, 115, 16).permute(0, 3, 1, 2), expected)


def _patches(images: torch.Tensor) -> torch.Tensor:
    """2x2 pixels of 4 channels side by side, row by row, after a border of 3 zeros."""
    padded = pad(images, (3, 3, 3, 3, 0, 1))
    parts = [padded[:, :, row::2, column::2] for row in range(2) for column in range(2)]
    return torch.cat(parts, dim=1)
