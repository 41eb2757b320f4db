# SPDX-License-Identifier: Apache-2.0
"""The whole model: the scale s computed, the scale x planned on both cards, one stage of it computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.planning import in_use, planned
from tests.models.yolov8.conftest import Images, outputs_of
from tt_cnn import ttnn
from tt_cnn.models import create_tt, model_entry
from tt_cnn.models.initialization import initialize
from tt_cnn.models.measurement import Measurement
from tt_cnn.models.yolov8.reference.model import SCALES, Stage
from tt_cnn.models.yolov8.tt.common import preprocess
from tt_cnn.models.yolov8.tt.config import TUNED, WORMHOLE, configurations, of_convolutions
from tt_cnn.models.yolov8.tt.model import Layers, TtStage
from tt_cnn.testing import assert_with_pcc, comp_pcc, compare_layers

Measured = Callable[..., Measurement]
FIRST: dict[str, Any] = {"precision": "tuned", "resolution": (640, 640), "batch_size": 1}
"""What the tests of the registry measure too, so that it is done once."""


def test_s_reaches_its_gate(measured: Measured, yolov8s: Any, activations: dict[str, torch.Tensor]) -> None:
    found = measured("yolov8s", **FIRST)
    assert found.pcc["predictions"] >= 0.99
    expected, (predictions,) = activations[""], found.outputs
    assert comp_pcc(expected[:, :4], predictions[:, :4])[1] >= 0.99, "boxes alone"
    assert comp_pcc(expected[:, 4:], predictions[:, 4:])[1] >= 0.93, "scores alone"
    assert (expected[:, :4] - predictions[:, :4]).abs().median() < 3.0, "pixels"


@pytest.mark.long
@pytest.mark.parametrize("precision", ["tuned", "bfloat16"])
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("name", ["yolov8s", "yolov8x"])
def test_all_seeds_reach_the_gate(name: str, seed: int, precision: str, measured: Measured) -> None:
    assert measured(name, seed=seed, precision=precision).pcc["predictions"] >= 0.99


@pytest.mark.parametrize("precision", ["tuned", pytest.param("bfloat16", marks=pytest.mark.long)])
@pytest.mark.parametrize("card", ["n150", "p150"])
def test_x_fits(card: str, precision: str) -> None:
    """Every step of it, with the outputs of the call before still there."""
    model, images = planned(model_entry("yolov8x"), card, precision=precision)
    placed = model.place(images)
    output = model(placed)
    first = in_use(model.device)
    output = model(placed)
    assert tuple(output.shape) == (1, 1, 84, 8400) and output.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert in_use(model.device) == first
    assert placed.is_allocated()


def test_a_stage_of_x(device: Any) -> None:
    """The first one: 80 channels in each half, filled up to 96."""
    stage = Stage(80, 160, SCALES["x"].blocks(3))
    reference = torch.nn.Sequential(torch.nn.Conv2d(3, 80, 3, 2, 1, bias=False), torch.nn.BatchNorm2d(80), stage)
    initialize(reference, (640, 640), seed=0)
    found = outputs_of(reference.eval(), model_entry("yolov8x").example_input(), depth=0)
    parameters = {"backbone": {"stage1": preprocess(stage)}}
    layers = Layers(of_convolutions(parameters, WORMHOLE["x"], TUNED), device)
    output = TtStage(layers, "backbone.stage1")(Images(device, "x").in_rows(found["1"]))
    assert output.shape[3] == 160
    assert_with_pcc(found["2"], Images.to_torch(output, found["2"]), 0.99)


@pytest.mark.long
def test_layers_stay_near_the_references(yolov8s: Any, device: Any) -> None:
    """With bfloat16; further on, seeded weights let any difference grow."""
    model = create_tt("yolov8s", device, yolov8s, precision="bfloat16")
    images = model_entry("yolov8s").example_input()
    report = compare_layers(yolov8s, model, images, model.place(images), threshold=0.99)
    near = {each.name for each in report.layers if each.passed}
    assert {"backbone.stem", "backbone.stage1", "backbone.stage2"} <= near, str(report)


def test_other_numbers_of_classes(device: Any) -> None:
    reference = model_entry("yolov8s").reference(classes=3).eval()
    model = create_tt("yolov8s", device, reference)
    assert model.layers["head.classes.0.conv3"].configuration.out_channels == 3
    assert configurations(preprocess(reference), WORMHOLE["s"], "tuned").keys() <= model.layers.keys()
