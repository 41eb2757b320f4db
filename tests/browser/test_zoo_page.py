# SPDX-License-Identifier: Apache-2.0
"""The zoo's page in a real browser: `make test-browser`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.test_report_page import EVIL, Opened
from tests.zoo.benchmark_files import benchmark_module

pytestmark = pytest.mark.browser


def row(name: str, card: str, fps: float) -> dict[str, Any]:
    rates = {"device_fps": fps, "device_fps_band": [fps, fps], "fps": fps, "fps_band": [fps, fps]}
    return {
        **{"name": name, "family": name[:-1], "task": "detection", "card": card, "input": "1x3x8x8", "command": EVIL},
        **{"pcc": {"a": 0.99}, "passed": True, "fallbacks": [], "seconds": {"fit": 2.0}, "l1_peak": 2048},
        **{**rates, "rates": {"1": rates}, "best_batch": 1},
    }


ROWS = [row("net1", "n150", 90), row("net2", "n150", 1000), row("other1", "n150", 200), row("net1", "p150", 300)]
FAILED = {**ROWS[2], "card": "p150", "failed": EVIL}


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Opened:
    path = tmp_path / "zoo.html"
    path.write_text(benchmark_module("zoo_page").html_page([*ROWS, FAILED]))
    made = Opened(browser, path)
    assert made.asked == [path.as_uri()]
    return made


def shown(page: Any) -> list[str]:
    rows = "[...document.querySelectorAll('tbody tr')].filter(row => !row.hidden)"
    found: list[str] = page.evaluate(f"{rows}.map(row => row.cells[0].textContent + ' ' + row.cells[3].textContent)")
    return found


def test_rows_are_filtered_by_words_and_menus(opened: Opened) -> None:
    page = opened.page
    assert len(shown(page)) == 5 and page.locator("#count").inner_text() == "5 of 5"
    page.locator("#filter").fill("NET n150")
    assert shown(page) == ["net1 n150", "net2 n150"]
    page.locator("#filter").fill("")
    page.get_by_label("card").select_option("p150")
    assert shown(page) == ["net1 p150", "other1 p150"]
    page.get_by_label("family").select_option("net")
    assert shown(page) == ["net1 p150"] and page.locator("#count").inner_text() == "1 of 5"
    assert opened.complaints == []
    page.close()


def test_rows_are_sorted_by_number_and_by_word_and_failures_come_last(opened: Opened) -> None:
    page = opened.page
    heading = page.get_by_role("columnheader", name="fps, batch 1", exact=True)
    heading.click()
    assert shown(page) == ["net1 n150", "other1 n150", "net1 p150", "net2 n150", "other1 p150"]
    heading.click()
    assert shown(page) == ["net2 n150", "net1 p150", "other1 n150", "net1 n150", "other1 p150"]
    page.get_by_role("columnheader", name="card", exact=True).click()
    assert [each.split()[1] for each in shown(page)] == ["n150"] * 3 + ["p150"] * 2
    assert opened.complaints == [] and not page.evaluate("window.broken")
    page.close()
