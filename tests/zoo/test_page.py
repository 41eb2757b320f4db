# SPDX-License-Identifier: Apache-2.0
"""The pages that `benchmarks/zoo.py` writes of its rows."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).parents[2] / "benchmarks" / "zoo_page.py"
RATES = {"device_fps": 100.0, "device_fps_band": [90.0, 120.0], "fps": 80.0, "fps_band": [80.0, 80.0]}
CAME: dict[str, Any] = {
    **{"name": "net", "task": "detection", "card": "n150", "input": "1x3x8x8", "command": 'run "<net>"'},
    **{"pcc": {"a": 0.991, "b": 0.987}, "passed": False, "fallbacks": [], "seconds": {"fit": 2.0}},
    **{"l1_peak": 2048, "l1_small_size": 64, "trace_region_size": 10, "macs": 2e9, "parameters": 3e6},
    **{**RATES, "rates": {"1": RATES, "4": {**RATES, "fps": 300.0}}, "best_batch": 4, "batches_seconds": 3.0},
}
FAILED = {**{key: CAME[key] for key in ("name", "task", "card", "input", "command")}, "failed": "fit: <b>|no</b>"}
ON_HOST = {key: value for key, value in CAME.items() if key not in ("rates", "macs", "parameters", *RATES)} | {
    "fallbacks": ["op"],
    "passed": True,
}


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("zoo_page", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_rows_have_a_cell_for_each_heading(page: ModuleType) -> None:
    assert len(page.cells(CAME)) == len(page.cells(ON_HOST)) == len(page.HEADINGS)
    cells = dict(zip(page.HEADINGS, page.cells(CAME), strict=True))
    assert cells["lowest PCC"] == "0.9870, below its gate" and cells["best batch"] == "4"
    assert cells["fps, best batch"] == "300 (80 to 80)" and cells["seconds"] == "5"


def test_the_page_in_markdown(page: ModuleType) -> None:
    lines = page.markdown_page([CAME, FAILED, ON_HOST]).strip().split("\n")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 5 and {line.count("|") for line in table} == {len(page.HEADINGS) + 1}
    assert lines[-1] == "3 rows, 1 failed, 1 with ops in torch."


def test_the_page_in_html_escapes_what_it_shows(page: ModuleType) -> None:
    text = page.html_page([CAME, FAILED])
    assert "<b>" not in text and "&lt;b&gt;|no&lt;/b&gt;" in text and "run &quot;&lt;net&gt;&quot;" in text
    assert text.count("<tr title=") == 2 and f'colspan="{len(page.HEADINGS) - 4}"' in text
