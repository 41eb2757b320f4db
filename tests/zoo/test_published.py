# SPDX-License-Identifier: Apache-2.0
"""Our models beside published rates."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.zoo.benchmark_files import benchmark_module


@pytest.fixture(scope="module")
def beside() -> ModuleType:
    return benchmark_module("zoo_published")


def row(ours: float | None, published: float = 100.0, tolerance: float = 0.0) -> dict[str, Any]:
    made = {"title": "Net 8x8 batch 1 on n150", "published_fps": published, "tolerance": tolerance, "way": "as shipped"}
    made["gate"] = "0.98"
    return made if ours is None else {**made, "device_fps": ours, "pcc": 0.99}


def test_what_counts_as_reached(beside: ModuleType) -> None:
    assert beside.reached(row(100.0)) and not beside.reached(row(99.9)) and not beside.reached(row(None))
    assert beside.reached(row(97.5, tolerance=0.03), tolerance=True) and not beside.reached(row(97.5, tolerance=0.03))


def test_the_table_counts_and_names_what_is_slower(beside: ModuleType) -> None:
    rows = [row(120.0), row(98.0, tolerance=0.03), row(None)]
    lines = beside.published_table(rows)
    assert lines[2] == "| Net 8x8 batch 1 on n150 | 100 | 120 | 1.20 | as shipped | 0.9900 | 0.98 |"
    assert lines[-1].startswith("Of 3 published rates, ours reach 1 (33%), and 2 (67%) within")
    assert beside.published_misses(rows)[0].startswith("33% of the published rates are reached, 80% wanted")
    assert not beside.published_misses([row(100.0)] * 4 + [row(1.0)])


def test_rates_are_those_of_the_same_card_and_input(beside: ModuleType) -> None:
    found = beside.rates_of({"name": "resnet50", "card": "p150", "input": "1x3x224x224"})
    assert [rate.batch for rate in found] == [16, 32]
    assert not beside.rates_of({"name": "resnet50", "card": "n300", "input": "1x3x224x224"})
    assert not beside.rates_of({"name": "yolov5x", "card": "n150", "input": "1x3x320x320"})


def test_ours_is_the_fastest_of_what_there_is(beside: ModuleType) -> None:
    rate = next(each for each in beside.published_rates() if each.model == "Vanilla UNet")
    found = beside._row(rate, {})
    assert found["device_fps"] == max(found["ways"].values()) and "as shipped" in found["ways"]
    assert beside._row(next(r for r in beside.published_rates() if r.model == "YOLOv5x"), {})["way"] == "not there"
