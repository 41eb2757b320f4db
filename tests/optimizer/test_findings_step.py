# SPDX-License-Identifier: Apache-2.0
"""The step that tries findings: the search judges each on the whole model."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.optimizer.residual import IN_DRAM, registered
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.findings import find_in_model
from tt_cnn.optimizer.prediction import PlannedNetwork, planned_network
from tt_cnn.optimizer.search import Budget, Search
from tt_cnn.optimizer.steps.findings import FindingsStep


@pytest.fixture(scope="module")
def network() -> Iterator[PlannedNetwork]:
    with registered(IN_DRAM), planned_network("residual_in_dram", "n150") as network:
        yield network


def test_findings_are_tried_and_kept_where_the_model_is_faster(network: PlannedNetwork) -> None:
    search = Search.starting_from(network, budget=Budget(seconds=None, candidates=200))
    before = search.best.device_ns
    FindingsStep().run(search)
    kept = search.journal.kept
    assert search.best.device_ns < before / 3
    assert {"layer1.0.output", "layer3.0.conv1"} <= search.best.assignment.keys()
    assert kept[0].step == "findings" and "block sharding for all of them" in kept[0].words
    assert all(attempt.device_ns is not None for attempt in kept)


def test_what_is_frozen_is_not_tried(network: PlannedNetwork) -> None:
    search = Search.starting_from(network, budget=Budget(seconds=None, candidates=200), freeze=("layer4.*",))
    FindingsStep().run(search)
    assert search.best.assignment and not [name for name in search.best.assignment if name.startswith("layer4.")]


def test_findings_come_on_top_of_the_settings_that_are_there(network: PlannedNetwork) -> None:
    """What was applied is not advised again."""
    first = find_in_model(network)
    assert first.together is not None
    start = Assignment.from_dict(first.together.changes)
    again = find_in_model(network, start=start)
    left = 0.0 if again.together is None else again.together.saves_ns
    assert left < 0.1 * first.together.saves_ns
    assert not [one for one in again.findings or () if one.kind == "DRAM" and one.changes]
