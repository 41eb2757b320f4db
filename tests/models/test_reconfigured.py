# SPDX-License-Identifier: Apache-2.0
"""Models under random settings: what a planning card accepts computes the same, and what it refuses leaves nothing.

The seeds are fixed; a fault that was found once is found again.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from torch import nn

from tests.models.planning import in_use
from tests.models.reconfiguring import SETTINGS, drawn, reconfigured
from tt_cnn import ttnn
from tt_cnn.builder.overrides import Assignment
from tt_cnn.models import create_tt, list_models, model_entry
from tt_cnn.models.running import reference_outputs
from tt_cnn.optimizer.prediction import Refusal, planned_network
from tt_cnn.testing.pcc import comp_pcc

MODELS = [name for name in list_models() if name != "yolov8x"]
"""The scale x of YOLOv8 is the scale s with other sizes."""
QUICK = ("mobilenetv2", "resnet50")
SAME = 0.9
"""The PCC of a network whose layers compute the right thing in whatever dtype; one that mixes tensors up has none."""


@pytest.mark.parametrize("name", MODELS)
def test_refused_runs_leave_nothing_and_change_nothing(name: str) -> None:
    draw = random.Random(name)
    with planned_network(name, "n150") as network:
        own = network.predict(Assignment())
        before = in_use(network.device)["L1"]
        names = [each for each, configuration in network.configurations.items() if type(configuration) in SETTINGS]
        refused = 0
        for _ in range(20):
            changed = {each: drawn(network.configurations[each], draw) for each in draw.sample(names, 3)}
            refused += isinstance(network.predict(Assignment(changed)), Refusal)
            assert in_use(network.device)["L1"] == before, changed
        network._known.clear()
        assert refused and network.predict(Assignment()) == own


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in MODELS])
def test_accepted_settings_compute_the_same(
    name: str, seed: int, reference_of: Callable[..., nn.Module], request: pytest.FixtureRequest
) -> None:
    with planned_network(name, "n150") as network:
        assignment, kept = reconfigured(network, random.Random(f"{name}{seed}"), tries=40)
    assert kept >= 5
    for output, pcc in _pcc(name, reference_of(name), assignment).items():
        assert pcc >= SAME, (output, assignment)


def _pcc(name: str, reference: nn.Module, assignment: Assignment) -> dict[str, float]:
    """Of every output, on the numerics of the card."""
    entry = model_entry(name)
    device: Any = ttnn.open_device(device_id=0, card="n150", l1_small_size=entry.l1_small_size)
    try:
        model = create_tt(name, device, reference, config=assignment)
        images = entry.example_input()
        found = model.to_torch(model(model.place(images)))
    finally:
        ttnn.close_device(device)
    expected = reference_outputs(reference, images)
    return {
        output: float(comp_pcc(golden, values)[1])
        for output, golden, values in zip(model.outputs, expected, found, strict=True)
    }
