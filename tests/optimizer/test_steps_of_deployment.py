# SPDX-License-Identifier: Apache-2.0
"""Batch, executor, chips: each compared with the true times of all choices."""

from __future__ import annotations

import pytest

from tt_cnn.builder.overrides import Assignment
from tt_cnn.models.pipelines import EXECUTORS
from tt_cnn.optimizer.deployment import Deployment
from tt_cnn.optimizer.networks import Networks
from tt_cnn.optimizer.prediction import Prediction, planned_network
from tt_cnn.optimizer.run import optimize
from tt_cnn.reports.profiling import profile_model


def test_the_best_batch_is_found_and_only_for_throughput() -> None:
    times = {}
    for size in (1, 8, 16):
        with planned_network("resnet50", "n150", batch_size=size) as network:
            predicted = network.predict(Assignment())
            assert isinstance(predicted, Prediction) and predicted.images == size
            times[size] = predicted.device_ns / size
    best = min(times, key=lambda size: times[size])
    result = optimize("resnet50", goal="throughput", steps=["batch"], candidates=10)
    assert result.after.deployment.batch_size == best
    assert result.value_after == pytest.approx(times[best]) and result.value_before == pytest.approx(times[1])
    assert result.configurations["conv1"].batch_size == best  # type: ignore[attr-defined]
    assert optimize("resnet50", steps=["batch"], candidates=10).journal.attempts == []


def test_the_best_executor_is_found() -> None:
    profile = profile_model("vanilla_unet")
    times = {one.executor: one.input_ns for one in profile.executors}
    result = optimize("vanilla_unet", steps=["pipeline"], candidates=0)
    assert {a.deployment.executor: a.input_ns for a in result.journal.attempts if a.deployment} == pytest.approx(times)
    assert set(times) == set(EXECUTORS)
    assert result.after.deployment.executor == min(times, key=lambda name: times[name])
    assert result.after.input_ns == pytest.approx(min(times.values()))
    assert result.after.fps == pytest.approx(1e9 / min(times.values())) and result.value_after == result.value_before


def test_both_chips_are_compared_with_one() -> None:
    result = optimize("vanilla_unet", card="n300", steps=["devices"], candidates=0)
    both, one = result.journal.attempts
    assert both.deployment == Deployment("n300", 2) and both.outcome == "kept" and "all 2 chips" in both.words
    assert one.deployment == Deployment("n300", 1) and one.outcome == "taken back" and "for an image" in one.reason
    assert both.input_ns and one.input_ns and one.input_ns < both.input_ns < 2 * one.input_ns
    assert result.after.deployment.chips == 2
    with Networks("vanilla_unet", "n300") as networks:
        assert networks.network(1, 1).input_ns(Assignment()) == pytest.approx(one.input_ns)
        assert networks.network(1, 1).model.chips == 1
    assert optimize("vanilla_unet", steps=["devices"], candidates=0).journal.attempts == [], "one chip: no choice"
