# SPDX-License-Identifier: Apache-2.0
"""What is stored of the zoo, and the pages that are made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.zoo.benchmark_files import FOLDER, benchmark_module
from tt_cnn.zoo import list_architectures
from tt_cnn.zoo.stored import stored_results

DOCS = Path(__file__).parents[2] / "docs"
ROWS: list[dict[str, Any]] = [row for cards in stored_results().values() for row in cards.values()]
CARDS = {"n150", "n300", "p150"}


def test_at_least_fifty_architectures_on_all_cards_and_few_leave_ops_in_torch() -> None:
    found = stored_results()
    assert len(found) >= 50 and set(found) <= set(list_architectures())
    assert all(set(cards) == CARDS for cards in found.values())
    assert sum(any(row.get("fallbacks") for row in cards.values()) for cards in found.values()) <= 8


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['name']}-{row['card']}" for row in ROWS])
def test_a_row_has_all_figures_or_says_why_not(row: dict[str, Any]) -> None:
    if "failed" in row:
        assert row["failed"].partition(": ")[2]
        return
    assert row["passed"] and all(row["pcc"][name] >= row["gates"][name] for name in row["gates"])
    assert sum(row["seconds"].values()) > 0 and row["name"] in row["command"] and row["card"] in row["command"]
    assert row["l1_peak"] <= row["l1_size"]
    for rates in row["rates"].values():
        for key in ("device_fps", "fps"):
            low, high = rates[f"{key}_band"]
            assert 0 < low <= rates[key] <= high
        assert rates["fps"] <= rates["device_fps"] * 1.001
    assert row["rates"][str(row["best_batch"])]["fps"] == max(rates["fps"] for rates in row["rates"].values())


def test_chips_of_n300_run_what_one_of_n150_runs() -> None:
    for cards in stored_results().values():
        one, two = cards["n150"], cards["n300"]
        if "failed" not in one:
            assert two["pcc"] == one["pcc"] and two["device_fps"] == pytest.approx(2 * one["device_fps"])


def test_the_pages_are_made_of_the_stored_rows() -> None:
    page = benchmark_module("zoo_page")
    published = json.loads((FOLDER / "results" / "zoo_published.json").read_text())
    table = benchmark_module("zoo_published").published_table(published)
    assert (DOCS / "zoo.md").read_text() == page.markdown_page(ROWS, table)
    assert (DOCS / "zoo.html").read_text() == page.html_page(ROWS)
