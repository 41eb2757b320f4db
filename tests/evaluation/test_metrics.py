# SPDX-License-Identifier: Apache-2.0
"""Figures against what one counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tt_cnn.evaluation.detections import Detections
from tt_cnn.evaluation.drawn_data.targets import Boxes
from tt_cnn.evaluation.folders import CocoBoxes
from tt_cnn.evaluation.metrics import MeanAveragePrecision, Overlap, Ranking


def boxes(*rows: tuple[float, ...], labels: tuple[int, ...] = ()) -> Boxes:
    return Boxes(np.array(rows, np.float32).reshape(-1, 4), np.array(labels or [0] * len(rows), np.int64))


def found(*rows: tuple[float, ...], labels: tuple[int, ...] = ()) -> Detections:
    """Rows of left, top, right, bottom, score."""
    values = torch.tensor(rows).reshape(-1, 5)
    return Detections(values[:, :4], values[:, 4], torch.tensor(labels or [0] * len(rows), dtype=torch.int64))


def test_overlap_counts_the_pixels_of_all_pictures() -> None:
    metric = Overlap()
    metric.add(np.array([[1, 1, 0, 0]]), np.array([[0, 1, 1, 0]]))
    assert metric.results() == {"IoU": pytest.approx(100 / 3), "Dice": pytest.approx(50)}
    metric.add(torch.tensor([[True, True, True, True]]), np.array([[1, 1, 1, 1]]))
    assert metric.results() == {"IoU": pytest.approx(100 * 5 / 7), "Dice": pytest.approx(100 * 10 / 12)}


def test_overlap_of_nothing_with_nothing_is_full() -> None:
    metric = Overlap()
    metric.add(np.zeros((2, 2)), np.zeros((2, 2)))
    assert metric.results() == {"IoU": 100.0, "Dice": 100.0}
    metric.add(np.ones((2, 2)), np.zeros((2, 2)))
    assert metric.results() == {"IoU": 0.0, "Dice": 0.0}


def test_masks_of_two_sizes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match=r"the mask is \(2, 2\); the true one is \(2, 3\)"):
        Overlap().add(np.ones((2, 2)), np.ones((2, 3)))


def test_ranking_counts_first_and_first_five() -> None:
    metric = Ranking()
    scores = torch.tensor([0.0, 5.0, 1.0, 4.0, 2.0, 3.0, -1.0])
    for target in (1, 4, 0, 6):  # first; fourth; sixth; last
        metric.add(scores, target)
    assert metric.results() == {"top-1": 25.0, "top-5": 50.0}


def test_perfect_detections_have_a_map_of_100() -> None:
    metric = MeanAveragePrecision(2)
    metric.add(found((10, 10, 50, 50, 0.9), (60, 60, 90, 80, 0.6), labels=(0, 1)),
               boxes((10, 10, 40, 40), (60, 60, 30, 20), labels=(0, 1)))  # fmt: skip
    assert metric.results() == {name: pytest.approx(100) for name in ("mAP", "mAP50", "mAP75")}


def test_average_precision_is_the_area_under_the_curve() -> None:
    """Right at 0.9, wrong at 0.8, right at 0.7, two objects: precision 1 up to recall 1/2, then 2/3. COCO takes 101
    points of recall: 51 of them up to 1/2.
    """
    metric = MeanAveragePrecision(1)
    metric.add(
        found((0, 0, 20, 20, 0.9), (200, 200, 220, 220, 0.8), (100, 100, 150, 150, 0.7)),
        boxes((0, 0, 20, 20), (100, 100, 50, 50)),
    )
    assert metric.results()["mAP"] == pytest.approx(100 * (51 + 50 * 2 / 3) / 101)


def test_a_box_that_is_a_little_off_counts_up_to_its_overlap() -> None:
    """10 wide, moved by 2: IoU 8 / 12 = 0.667, so right at 0.5, 0.55, 0.6 and 0.65 of the ten limits."""
    metric = MeanAveragePrecision(1)
    metric.add(found((2, 0, 12, 10, 0.9)), boxes((0, 0, 10, 10)))
    assert metric.results() == {
        "mAP": pytest.approx(40),
        "mAP50": pytest.approx(100),
        "mAP75": pytest.approx(0),
    }


def test_wrong_classes_and_pictures_do_not_count() -> None:
    metric = MeanAveragePrecision(2)
    metric.add(found((0, 0, 10, 10, 0.9), labels=(1,)), boxes((0, 0, 10, 10)))
    metric.add(found((0, 0, 10, 10, 0.9)), boxes())
    assert metric.results()["mAP50"] == 0


def test_crowds_are_neither_right_nor_wrong() -> None:
    target = CocoBoxes(
        np.array([[0, 0, 20, 20], [100, 0, 100, 100]], np.float32),
        np.array([0, 0]),
        areas=np.array([400, 9000], np.float32),
        crowd=np.array([0, 1]),
    )
    metric = MeanAveragePrecision(1)
    metric.add(found((0, 0, 20, 20, 0.5), (110, 10, 130, 30, 0.9)), target)
    assert metric.results()["mAP"] == pytest.approx(100)


@pytest.mark.parametrize("target", [boxes(), boxes((0, 0, 5, 5))])
def test_nothing_found_is_no_precision(target: Boxes) -> None:
    metric = MeanAveragePrecision(1)
    metric.add(found(), target)
    assert metric.results() == {"mAP": 0.0, "mAP50": 0.0, "mAP75": 0.0}
