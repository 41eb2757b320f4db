# SPDX-License-Identifier: Apache-2.0
"""The whole model: its gates, other widths and numbers of classes, the shipped weights, public checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.models.yolov4.modules import FULL, QUARTER
from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.models import create_reference, create_tt, model_entry
from tt_cnn.models.measurement import Measurement, measure
from tt_cnn.testing import assert_with_pcc, compare_layers

ENTRY = model_entry("yolov4")
PRECISIONS = ["tuned", "bfloat16"]


def test_the_tuned_model_reaches_its_gates(measured: Callable[..., Measurement]) -> None:
    found = measured("yolov4", precision="tuned", resolution=(320, 320), batch_size=1)
    assert found.pcc["boxes"] >= 0.99 and found.pcc["confidences"] >= 0.9


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bfloat16_model_reaches_0_99(seed: int, measured: Callable[..., Measurement]) -> None:
    assert min(measured("yolov4", seed=seed, precision="bfloat16").pcc.values()) >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("card", ["n150", "p150"])
@pytest.mark.parametrize("precision", PRECISIONS)
def test_it_reaches_them_at_640(precision: Any, card: str, reference_by_width: Callable[[float], Any]) -> None:
    found = measure("yolov4", card=card, precision=precision, resolution=(640, 640), reference=reference_by_width(FULL))
    assert found.passed, found.pcc


@pytest.mark.parametrize(
    ("width", "classes", "seed"),
    [
        (0.25, 4, 0),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((0.25, 4, 1), (0.25, 20, 2), (0.5, 1, 0))),
    ],
)
@pytest.mark.parametrize("precision", ["tuned", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_other_widths_and_classes_reach_them_too(width: float, classes: int, seed: int, precision: Any) -> None:
    reference = create_reference("yolov4", seed=seed, width=width, classes=classes)
    found = measure("yolov4", seed=seed, precision=precision, reference=reference)
    assert found.passed, found.pcc
    assert found.outputs[1].shape[-1] == classes


@pytest.mark.parametrize("width", [1 / 16, pytest.param(1 / 8, marks=pytest.mark.long)])
def test_the_narrowest_work(width: float, open_device: Callable[..., Any]) -> None:
    """Eight channels are less than a tile, and less than a row of a shard."""
    reference = create_reference("yolov4", width=width, classes=2)
    images = ENTRY.example_input()
    model = create_tt("yolov4", open_device(), reference)
    with torch.no_grad():
        expected = reference(images)
    for golden, value in zip(expected, model.to_torch(model(model.place(images))), strict=True):
        assert_with_pcc(golden, value, 0.9)


def test_the_shipped_weights_find_what_torch_finds(open_device: Callable[..., Any]) -> None:
    reference = create_reference("yolov4", shipped=True)
    picture, _ = DetectionShapes("val")[0]
    images = ENTRY.normalize(torch.from_numpy(np.ascontiguousarray(picture)).permute(2, 0, 1)[None] / 255)
    model = create_tt("yolov4", open_device(), reference)
    with torch.no_grad():
        boxes, confidences = reference(images)
    found_boxes, found_confidences = model.to_torch(model(model.place(images)))
    assert_with_pcc(boxes, found_boxes, 0.999)
    assert_with_pcc(confidences, found_confidences, 0.99)
    sure = confidences.amax(dim=2) > 0.5
    assert sure.any(), "there is something in the picture"
    assert torch.equal(confidences[sure].argmax(dim=1), found_confidences[sure].argmax(dim=1))
    assert torch.allclose(boxes[sure], found_boxes[sure], atol=0.02)


@pytest.mark.long
def test_every_layer_is_near_the_references(model_on: Callable[..., Any]) -> None:
    model = model_on(QUARTER)
    images = ENTRY.example_input()
    reference = create_reference("yolov4", seed=0, width=QUARTER, classes=4)
    report = compare_layers(reference, model, images, model.place(images), threshold=0.9)
    assert report.passed, str(report)
    names = {layer.name for layer in report.layers}
    assert {"down1.conv8", "down4.resblock.blocks.7.1", "neck.conv20", "head.conv18"} <= names
