# SPDX-License-Identifier: Apache-2.0
"""Layers that no step of the search knows pass through it: they are predicted, run, stored and left as they are."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from tests.optimizer.mixed_model import NAME, mixed_entry
from tt_cnn.builder.overrides import Assignment, read_settings
from tt_cnn.models import registry
from tt_cnn.optimizer.accuracy import model_on_card
from tt_cnn.optimizer.baseline import fitting_naive_assignment, naive_assignment
from tt_cnn.optimizer.layer_noise import record_calls
from tt_cnn.optimizer.prediction import Prediction, planned_network
from tt_cnn.optimizer.report_page import optimization_page
from tt_cnn.optimizer.result_folder import write_files
from tt_cnn.optimizer.run import optimize
from tt_cnn.optimizer.settings import changed_settings, settings_in_force, tunable


@pytest.fixture(autouse=True)
def mixed_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry._ENTRIES, NAME, mixed_entry())


@pytest.mark.parametrize("batch_size", [1, 2])
def test_the_model_is_right_under_its_own_and_naive_settings(batch_size: int) -> None:
    with model_on_card(NAME, batch_size=batch_size, whole_batch=True) as model:
        images = model.example(0)
        expected = model.expected(images)["classes"]
        for assignment in (Assignment(), naive_assignment(model.configurations)):
            found = model.run(assignment, images)["classes"]
            pair = torch.stack((expected.flatten(), found.flatten()))
            assert torch.corrcoef(pair)[0, 1] > 0.98
        calls = record_calls(model, Assignment(), images)
    assert {"stem", "depthwise", "se.reduce", "se.expand", "qkv"} <= set(calls) and "norm" not in calls


def test_it_is_predicted_as_it_is_and_naively() -> None:
    with planned_network(NAME, "n150") as network:
        assert isinstance(network.predict(Assignment()), Prediction)
        assert isinstance(fitting_naive_assignment(network)[1], Prediction)


def test_settings_are_told_without_weights_and_without_ownership() -> None:
    with planned_network(NAME, "n150") as network:
        in_force = settings_in_force(network.configurations, Assignment())
        assert "reduce" not in in_force["se"] and in_force["se"]["in_place"]
        assert Assignment.from_dict(json.loads(json.dumps(in_force.to_dict()))) == in_force
        assert not changed_settings(network.configurations, in_force)
        assert set(tunable(in_force["gate"])) == {"output_dtype", "memory_config"}
        assert "heads" not in tunable(in_force["attention"])


def test_optimize_goes_through(tmp_path: Path) -> None:
    result = optimize(NAME, candidates=60)
    assert not result.faults and result.verification.holds
    assert result.value_after <= result.value_before
    write_files(result, tmp_path, optimization_page(result))
    stored = read_settings(tmp_path / "config.json")
    with planned_network(NAME, "n150", config=stored) as network:
        assert isinstance(network.predict(Assignment()), Prediction)
