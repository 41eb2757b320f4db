# SPDX-License-Identifier: Apache-2.0
"""Rows of `benchmarks/zoo.py`: one bring-up for all cards of a chip, and reasons where something fails."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.zoo.benchmark_files import benchmark_module
from tt_cnn.bringup.bring_up import BringUp, DoesNotComeUp


@pytest.fixture(scope="module")
def rows() -> ModuleType:
    return benchmark_module("zoo_rows")


def test_cards_of_several_chips_take_what_one_chip_has(rows: ModuleType) -> None:
    one, two = rows.architecture_rows("espcn_x4", ["n150", "n300"], rows.Tried((2,), 0))
    assert (one["card"], two["card"], two["brought_up_on"]) == ("n150", "n300", "n150")
    assert "brought_up_on" not in one and "failed" not in one and not one["fallbacks"]
    assert two["pcc"] == one["pcc"] and min(one["pcc"].values()) > 0.99
    assert two["device_us"] == one["device_us"] and one["fps"] < two["fps"] <= 2.01 * one["fps"]
    assert set(one["rates"]) == set(two["rates"]) == {"1", "2"}
    assert {"load", "export", "lower", "fit", "profile", "batches"} == set(one["seconds"])
    assert set(two["seconds"]) == {"profile"}


def test_no_batch_is_begun_when_the_time_is_over(rows: ModuleType) -> None:
    (row,) = rows.architecture_rows("espcn_x4", ["n150"], rows.Tried((2, 4), 0.01))
    assert set(row["rates"]) == {"1"} and row["best_batch"] == 1
    assert row["batches_ended"].startswith("batch 2: not tried")


def test_a_row_that_fails_says_why_on_every_card(rows: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: BringUp) -> Any:
        raise DoesNotComeUp("no settings were found\n  and more")

    monkeypatch.setattr(BringUp, "fit", refuse)
    found = list(rows.architecture_rows("espcn_x4", ["n150", "n300", "p150"], rows.Tried((), 0)))
    assert [row["card"] for row in found] == ["n150", "n300", "p150"]
    assert {row["failed"] for row in found} == {"fit: DoesNotComeUp: no settings were found"}


def test_a_batch_that_does_not_fit_ends_the_search(rows: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: BringUp, arithmetic: Any) -> Any:
        raise DoesNotComeUp("it is too large")

    monkeypatch.setattr(BringUp, "fit_in", refuse)
    (row,) = rows.architecture_rows("espcn_x4", ["n150"], rows.Tried((2, 4), 0))
    assert row["batches_ended"] == "batch 2: DoesNotComeUp: it is too large"
    assert "failed" not in row and set(row["rates"]) == {"1"}
