# SPDX-License-Identifier: Apache-2.0
"""Suppression and selection of boxes, against loops that one can read."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.evaluation.detections import detect, overlaps, suppress


def overlap_by_hand(a: list[float], b: list[float]) -> float:
    width = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    union = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - width * height
    return width * height / union if union else 0.0


def suppressed_by_hand(corners: list[list[float]], scores: list[float], classes: list[int], limit: float) -> list[int]:
    kept: list[int] = []
    for index in sorted(range(len(scores)), key=lambda i: -scores[i]):
        rivals = (k for k in kept if classes[k] == classes[index])
        if all(overlap_by_hand(corners[index], corners[k]) <= limit for k in rivals):
            kept.append(index)
    return kept


@st.composite
def scenes(draw: st.DrawFn) -> tuple[list[list[float]], list[float], list[int]]:
    count = draw(st.integers(0, 25))
    corners = []
    for _ in range(count):
        x, y, width, height = (draw(st.integers(0, 12)) for _ in range(4))
        corners.append([float(x), float(y), float(x + width), float(y + height)])
    scores = draw(st.lists(st.integers(0, 1000), min_size=count, max_size=count, unique=True))
    return corners, [score / 1000 for score in scores], [draw(st.integers(0, 2)) for _ in range(count)]


@settings(max_examples=150, deadline=None)
@given(scenes(), st.sampled_from([0.0, 0.3, 0.45, 0.7, 1.0]))
def test_suppression_is_the_loop_s(scene: tuple[list[list[float]], list[float], list[int]], limit: float) -> None:
    corners, scores, classes = scene
    kept = suppress(torch.tensor(corners).reshape(-1, 4), torch.tensor(scores), torch.tensor(classes), limit)
    assert kept.tolist() == suppressed_by_hand(corners, scores, classes, limit)


def test_overlaps_of_each_with_each() -> None:
    first = torch.tensor([[0.0, 0, 10, 10], [5, 5, 5, 5]])
    second = torch.tensor([[5.0, 0, 15, 10], [0, 0, 10, 10], [20, 20, 30, 30]])
    expected = torch.tensor([[50 / 150, 1, 0], [0, 0, 0]])
    assert torch.allclose(overlaps(first, second), expected)


def test_doubles_of_a_class_go_and_other_classes_stay() -> None:
    corners = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 0.9], [0.5, 0.5, 0.6, 0.6]])
    confidences = torch.tensor([[0.9, 0.0], [0.8, 0.7], [0.1, 0.4]])
    found = detect(corners, confidences, threshold=0.25)
    assert found.scores.tolist() == pytest.approx([0.9, 0.7, 0.4])
    assert found.classes.tolist() == [0, 1, 1]
    assert found.corners.tolist() == corners[[0, 1, 2]].tolist()


def test_the_best_are_kept_when_there_are_too_many() -> None:
    corners = torch.arange(40.0).reshape(-1, 1) * torch.tensor([[2.0, 0, 2, 0]]) + torch.tensor([[0.0, 0, 1, 1]])
    confidences = torch.linspace(0.3, 0.9, 40)[:, None]
    found = detect(corners, confidences, most=5)
    assert found.scores.tolist() == pytest.approx(confidences[:, 0].flip(0)[:5].tolist())


def test_nothing_confident_is_nothing() -> None:
    found = detect(torch.rand(7, 4), torch.full((7, 3), 0.2))
    assert len(found) == 0 and found.corners.shape == (0, 4)
