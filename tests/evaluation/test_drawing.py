# SPDX-License-Identifier: Apache-2.0
"""Drawings: the right colours at the right places."""

from __future__ import annotations

import numpy as np
import torch

from tt_cnn.evaluation.detections import Detections
from tt_cnn.evaluation.drawing import (
    GAP,
    MASK_COLOR,
    MASK_OPACITY,
    PANEL_HEIGHT,
    class_color,
    side_by_side,
    with_boxes,
    with_classes,
    with_mask,
)

GRAY = np.full((400, 600, 3), 100, np.uint8)


def test_a_box_is_framed_in_the_colour_of_its_class() -> None:
    found = Detections(torch.tensor([[100.0, 150.0, 300.0, 350.0]]), torch.tensor([0.87]), torch.tensor([2]))
    drawn = with_boxes(GRAY, found, ("disc", "square", "star"))
    for row, column in ((250, 100), (250, 300), (350, 200), (151, 250)):
        assert tuple(drawn[row, column]) == class_color(2)
    assert np.array_equal(drawn[160:340, 110:290], GRAY[160:340, 110:290])
    assert np.all(GRAY == 100)


def test_a_label_stands_above_its_box_or_inside_where_there_is_no_room() -> None:
    for top, rows in ((150, slice(135, 149)), (0, slice(4, 12))):
        found = Detections(torch.tensor([[100.0, top, 300.0, 390.0]]), torch.tensor([0.5]), torch.tensor([0]))
        label = with_boxes(GRAY, found, ("disc",))[rows, 104:130].reshape(-1, 3)
        assert (label == class_color(0)).all(axis=1).mean() > 0.3
        assert (label.sum(axis=1) < 150).any() or (label.sum(axis=1) > 700).any()  # letters


def test_small_pictures_are_drawn_larger_with_boxes_in_place() -> None:
    small = np.full((90, 120, 3), 100, np.uint8)
    found = Detections(torch.tensor([[30.0, 45.0, 90.0, 80.0]]), torch.tensor([0.9]), torch.tensor([1]))
    drawn = with_boxes(small, found, ("disc", "square"))
    assert drawn.shape == (PANEL_HEIGHT, 480, 3)
    assert tuple(drawn[260, 121]) == class_color(1)


def test_a_mask_is_a_tint_with_an_edge() -> None:
    mask = torch.zeros(400, 600, dtype=torch.bool)
    mask[100:200, 100:300] = True
    drawn = with_mask(GRAY, mask)
    expected = [int(100 * (1 - MASK_OPACITY) + channel * MASK_OPACITY) for channel in MASK_COLOR]
    assert np.abs(drawn[150, 200].astype(int) - expected).max() <= 1
    assert tuple(drawn[100, 200]) == tuple(drawn[101, 200]) == MASK_COLOR
    assert drawn[99, 200].tolist() == drawn[300, 400].tolist() == [100, 100, 100]


def test_classes_are_bars_as_long_as_they_are_likely() -> None:
    drawn = with_classes(GRAY, torch.tensor([0.05, 0.75, 0.2]), ("cat", "dog", "cow"), places=1)
    row = drawn[-GAP - 6].astype(int)
    inside, outside = row[300:440], row[460:520]
    assert np.ptp(inside, axis=0).max() == 0 and np.ptp(outside, axis=0).max() == 0
    assert inside[0].sum() > outside[0].sum()
    assert np.array_equal(drawn[:300], GRAY[:300])


def test_panels_stand_side_by_side_at_one_height() -> None:
    sheet = side_by_side([("left", GRAY), ("right", np.full((800, 600, 3), 200, np.uint8))])
    assert sheet.shape[1] == GAP + 600 + GAP + 300 + GAP
    assert sheet[200, GAP].tolist() == [100, 100, 100] and sheet[200, 2 * GAP + 610].tolist() == [200, 200, 200]
    assert (sheet[:30, GAP : GAP + 60].min() < 100) and sheet[5, 300].tolist() == [255, 255, 255]
