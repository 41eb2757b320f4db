# SPDX-License-Identifier: Apache-2.0
"""With the shipped weights the card is as good as PyTorch."""

from __future__ import annotations

import pytest

from tt_cnn.evaluation.chosen_data import data_set, generated_names
from tt_cnn.evaluation.side_by_side import Comparison, classes_of, compare
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import running_model

POINTS = 1.0
LEAST = {"vanilla_unet": ("IoU", 90.0), "yolov4": ("mAP50", 90.0)}
"""What PyTorch reaches at least: a card can be near it only if there is something to be near to."""


def measured(name: str, count: int, card: str = "n150") -> Comparison:
    entry = model_entry(name)
    reference = create_reference(name, shipped=True)
    data, _ = data_set(entry, "generated", generated_names(entry), count=count, resolution=entry.resolution)
    with running_model(entry, reference, card=card) as running:
        classes = classes_of(entry, reference, entry.resolution)
        return compare(entry, reference, running, data, count=count, classes=classes)


def check(name: str, result: Comparison, figures: tuple[str, ...]) -> None:
    figure, least = LEAST[name]
    assert result.reference[figure] > least
    for each in figures:
        assert abs(result.differences()[each]) <= POINTS, result


@pytest.mark.parametrize(
    ("name", "count", "figures"), [("vanilla_unet", 2, ("IoU", "Dice")), ("yolov4", 8, ("mAP50",))]
)
def test_the_card_is_within_a_point_of_pytorch(name: str, count: int, figures: tuple[str, ...]) -> None:
    """mAP, with its limits up to an IoU of 0.95, takes more pictures to be steady: see below."""
    check(name, measured(name, count), figures)


@pytest.mark.long
@pytest.mark.parametrize("card", ["n150", "p150"])
@pytest.mark.parametrize(
    ("name", "count", "figures"), [("vanilla_unet", 24, ("IoU", "Dice")), ("yolov4", 100, ("mAP", "mAP50"))]
)
def test_the_card_is_within_a_point_of_pytorch_on_many_pictures(
    name: str, count: int, figures: tuple[str, ...], card: str
) -> None:
    check(name, measured(name, count, card), figures)
