# SPDX-License-Identifier: Apache-2.0
"""Pictures into inputs, and answers back into pictures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn.functional import interpolate

from tests.evaluation.stand_ins import SEGMENTER
from tt_cnn.evaluation.preparation import LETTERBOX_GRAY, Placement, place, prepare
from tt_cnn.models import ModelEntry


def picture(height: int, width: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_a_picture_of_the_right_size_is_not_touched(fit: str) -> None:
    given = picture(48, 64)
    values, placement = place(given, (48, 64), fit)  # type: ignore[arg-type]
    assert torch.equal(values, torch.from_numpy(given).permute(2, 0, 1) / 255)
    assert (placement.top, placement.left, placement.height, placement.width) == (0, 0, 48, 64)


def test_stretching_is_torch_s_antialiased_interpolation() -> None:
    given = picture(100, 30)
    values, _ = place(given, (48, 64), "stretch")
    whole = torch.from_numpy(given).permute(2, 0, 1)[None] / 255
    expected = interpolate(whole, size=(48, 64), mode="bilinear", align_corners=False, antialias=True)[0]
    assert torch.allclose(values, expected.clamp(0, 1))


def test_a_letterbox_keeps_proportions_between_gray_bars() -> None:
    values, placement = place(np.full((50, 100, 3), 255, np.uint8), (64, 64), "letterbox")
    assert (placement.top, placement.left, placement.height, placement.width) == (16, 0, 32, 64)
    assert torch.all(values[:, :16] == LETTERBOX_GRAY) and torch.all(values[:, 48:] == LETTERBOX_GRAY)
    assert torch.allclose(values[:, 16:48], torch.ones(()))


def test_a_crop_takes_the_middle() -> None:
    given = np.zeros((256, 512, 3), np.uint8)
    given[:, 256 - 112 : 256 + 112] = 255
    values, placement = place(given, (224, 224), "crop")
    assert (placement.height, placement.width) == (256, 512)
    assert (placement.top, placement.left) == (-16, -144)
    assert torch.allclose(values, torch.ones(()))


@pytest.mark.parametrize("fit", ["stretch", "letterbox", "crop"])
def test_boxes_come_back_to_where_they_were(fit: str) -> None:
    placement = Placement.of((100, 300), (320, 320), fit)  # type: ignore[arg-type]
    there = torch.tensor([[110.0, 20, 190, 80], [140, 45, 150, 55]])
    x = (there[:, 0::2] * placement.width / 300 + placement.left) / 320
    y = (there[:, 1::2] * placement.height / 100 + placement.top) / 320
    fractions = torch.stack((x[:, 0], y[:, 0], x[:, 1], y[:, 1]), dim=1)
    assert torch.allclose(placement.corners_in_picture(fractions), there, atol=1e-3)


def test_boxes_are_cut_at_the_edges_of_the_picture() -> None:
    placement = Placement.of((50, 100), (64, 64), "letterbox")
    cut = placement.corners_in_picture(torch.tensor([[-0.2, 0.0, 1.4, 1.0]]))
    assert cut.tolist() == [[0, 0, 100, 50]]


def test_masks_come_back_to_the_picture_s_size() -> None:
    placement = Placement.of((50, 100), (64, 64), "letterbox")
    values = torch.zeros(64, 64)
    values[16:48, 32:] = 1  # the right half of the picture
    back = placement.map_in_picture(values)
    assert back.shape == (50, 100)
    assert torch.all(back[:, :49] == 0) and torch.allclose(back[:, 51:], torch.ones(()))
    stretched = Placement.of((64, 64), (64, 64), "stretch")
    assert torch.equal(stretched.map_in_picture(values), values)


def test_masks_of_a_crop_are_0_outside() -> None:
    placement = Placement.of((256, 512), (224, 224), "crop")
    back = placement.map_in_picture(torch.ones(224, 224))
    assert back.sum() == 224 * 224 and torch.all(back[16:240, 144:368] == 1)


def test_values_are_normalized_as_the_entry_says() -> None:
    entry = ModelEntry(**{**vars(SEGMENTER), "mean": (0.5, 0.25, 0.0), "std": (0.5, 0.25, 2.0)})
    values, _ = prepare(entry, np.full((64, 64, 3), 255, np.uint8))
    assert values.shape == (1, 3, 64, 64)
    assert values[0, :, 0, 0].tolist() == [1.0, 3.0, 0.5]
