# SPDX-License-Identifier: Apache-2.0
"""Decoding: the reference's against a box worked out by hand, the card's against the reference's, in pixels."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.yolov8.reference.boxes import BINS, SIDES, decode
from tt_cnn.models.yolov8.tt.boxes import TtDecode
from tt_cnn.testing import assert_with_pcc

SIZES = (80, 40, 20)
CLASSES = 80


def test_a_box_by_hand() -> None:
    """All weight on the distances 1, 2, 3, 4 of the cell in row 2, column 5 at stride 16."""
    maps = [torch.zeros(1, SIDES * BINS + 3, size, size) for size in SIZES]
    for side, distance in enumerate((1, 2, 3, 4)):
        maps[1][0, side * BINS + distance, 2, 5] = 100.0
    maps[1][0, -1, 2, 5] = 100.0
    found = decode(maps)[0, :, 80 * 80 + 2 * 40 + 5]
    left, top, right, bottom = ((5.5 - 1) * 16, (2.5 - 2) * 16, (5.5 + 3) * 16, (2.5 + 4) * 16)
    center_and_size = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    torch.testing.assert_close(found, torch.tensor([*center_and_size, 0.5, 0.5, 1.0]))


def test_an_even_distribution_is_the_middle_distance() -> None:
    found = decode([torch.zeros(1, SIDES * BINS + 1, size, size) for size in SIZES])
    assert found.shape == (1, 5, 8400)
    torch.testing.assert_close(found[0, :4, 0], torch.tensor([4.0, 4.0, 15 * 8.0, 15 * 8.0]))


def on_card(device: Any, maps: list[torch.Tensor]) -> torch.Tensor:
    flat = [m.permute(0, 2, 3, 1).reshape(1, 1, -1, m.shape[1]).contiguous() for m in maps]
    boxes, classes = (
        [
            ttnn.from_torch(
                part.contiguous(),
                dtype=ttnn.bfloat16,
                layout=ttnn.TILE_LAYOUT,
                device=device,
                memory_config=ttnn.L1_MEMORY_CONFIG,
            )
            for part in parts
        ]
        for parts in zip(*(m.split((SIDES * BINS, CLASSES), dim=3) for m in flat), strict=True)
    )
    predictions = TtDecode(device, (640, 640))(boxes, classes)
    assert not any(each.is_allocated() for each in (*boxes, *classes))
    return ttnn.to_torch(predictions).float().squeeze(1)


@pytest.mark.parametrize("spread", [1.0, 8.0])
def test_the_card_agrees_to_a_fraction_of_a_pixel(device: Any, spread: float) -> None:
    torch.manual_seed(0)
    maps = [(spread * torch.randn(1, SIDES * BINS + CLASSES, size, size)).bfloat16().float() for size in SIZES]
    expected, found = decode(maps), on_card(device, maps)
    assert found.shape == expected.shape
    assert (expected[:, :4] - found[:, :4]).abs().max() < 1.0
    assert (expected[:, :4] - found[:, :4]).abs().mean() < 0.1
    assert_with_pcc(expected[:, 4:], found[:, 4:], 0.9999)


def test_wild_logits_stay_finite(device: Any) -> None:
    torch.manual_seed(0)
    maps = [(200.0 * torch.randn(1, SIDES * BINS + CLASSES, size, size)).bfloat16().float() for size in SIZES]
    assert on_card(device, maps).isfinite().all()
