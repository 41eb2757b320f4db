# SPDX-License-Identifier: Apache-2.0
"""The pages that `benchmarks/zoo.py` writes of its rows."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.zoo.benchmark_files import benchmark_module

RATES = {"device_fps": 100.0, "device_fps_band": [90.0, 120.0], "fps": 80.0, "fps_band": [80.0, 80.0]}
CAME: dict[str, Any] = {
    **{
        "name": "net",
        "family": "nets",
        "task": "detection",
        "card": "n150",
        "input": "1x3x8x8",
        "command": 'run "<net>"',
    },
    **{"pcc": {"a": 0.991, "b": 0.987}, "passed": False, "fallbacks": [], "seconds": {"fit": 2.0, "batches": 3.0}},
    **{"l1_peak": 2048, "l1_small_size": 64, "trace_region_size": 10, "macs": 2e9, "parameters": 3e6},
    **{**RATES, "rates": {"1": RATES, "4": {**RATES, "fps": 300.0}}, "best_batch": 4},
}
FAILED = {
    **{key: CAME[key] for key in ("name", "family", "task", "card", "input", "command")},
    "failed": "fit: <b>|no</b>",
}
ON_HOST = {key: value for key, value in CAME.items() if key not in ("rates", "macs", "parameters", *RATES)} | {
    "fallbacks": ["op"],
    "passed": True,
}


@pytest.fixture(scope="module")
def page() -> ModuleType:
    return benchmark_module("zoo_page")


def test_rows_have_a_cell_for_each_heading(page: ModuleType) -> None:
    assert len(page.cells(CAME)) == len(page.cells(ON_HOST)) == len(page.HEADINGS)
    cells = dict(zip(page.HEADINGS, page.cells(CAME), strict=True))
    assert cells["lowest PCC"] == "0.9870, below its gate" and cells["best batch"] == "4"
    assert cells["fps, best batch"] == "300 (80 to 80)" and cells["seconds"] == "5"


def test_the_page_in_markdown(page: ModuleType) -> None:
    lines = page.markdown_page([CAME, FAILED, ON_HOST]).strip().split("\n")
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 5 and {line.count("|") for line in table} == {len(page.HEADINGS) + 1}
    assert lines[-1] == "3 rows of 1 architectures, 1 failed, 1 with ops in torch."
    assert page.markdown_page([CAME], ["| a |"]).endswith("## Beside published rates\n\n| a |\n")


def test_the_page_in_html_escapes_what_it_shows(page: ModuleType) -> None:
    text = page.html_page([CAME, FAILED])
    assert "<b>" not in text and "&lt;b&gt;|no&lt;/b&gt;" in text and "run &quot;&lt;net&gt;&quot;" in text
    assert text.count("<tr title=") == 2 and f'colspan="{len(page.HEADINGS) - 5}"' in text


def test_the_page_in_html_has_a_menu_for_what_rows_have_in_common(page: ModuleType) -> None:
    text = page.html_page([CAME, {**CAME, "card": "p150"}, ON_HOST])
    for column, name, options in ((1, "family", ["nets"]), (2, "task", ["detection"]), (3, "card", ["n150", "p150"])):
        said = "".join(f"<option>{each}</option>" for each in options)
        assert (
            f'<select data-column="{column}" aria-label="{name}"><option value="">every {name}</option>{said}' in text
        )
        assert page.HEADINGS[column] == name
    assert "{" not in text.split("<style>")[0] and "index < 5" in text
    assert "http" not in text and "src=" not in text
