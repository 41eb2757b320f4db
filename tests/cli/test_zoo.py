# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn zoo`: the architectures, and stored results where there are some."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner, Result

from tests.cli.terminal import in_terminal
from tt_cnn.bringup.chips import one_chip_of
from tt_cnn.cli import app
from tt_cnn.zoo import list_architectures, stored

RATES = {"device_fps": 2456.2, "device_fps_band": [2100.4, 2700.0], "fps": 1728.4, "fps_band": [1500.0, 1900.0]}
BEST = {**RATES, "fps": 4321.0}
ROW = {
    **RATES,
    **{"pcc": {"a": 0.99712, "b": 0.9981}, "fallbacks": ["x"], "l1_peak": 2048},
    **{"rates": {"1": RATES, "8": BEST}, "best_batch": 8},
}


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(app, ["zoo", *arguments])


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"squeezenet1_1": {"n150": ROW, "p150": {"failed": "fit: ValueError: no"}}}
    monkeypatch.setattr(stored, "stored_results", lambda: rows)


def test_all_are_listed() -> None:
    found = json.loads(run("--json").stdout)
    assert [each["name"] for each in found] == list_architectures()
    assert {"name", "family", "task", "paper", "parameters", "gmacs", "input_shape"} <= found[0].keys()


def test_filters_are_all_to_hold() -> None:
    names = [
        each["name"] for each in json.loads(run("--json", "--filter", "Classification", "--filter", "squeeze").stdout)
    ]
    assert names == ["squeezenet1_0", "squeezenet1_1"]
    nothing = run("--filter", "no such thing")
    assert nothing.exit_code == 1 and "no architecture has 'no such thing'" in str(nothing.exception)


@pytest.mark.usefixtures("results")
def test_stored_results_of_a_card() -> None:
    said = run("--filter", "squeezenet1_1").stdout
    assert said.splitlines()[-2].startswith("1 architecture; ")
    assert "results on n150 of 1, predicted" in said
    for figure in ("2456 (2100 to 2700)", "1728 (1500 to 1900)", "4321 at 8", "0.9971"):
        assert figure in said
    assert "squeezenet1_1 fails: fit: ValueError: no" in run("--filter", "squeezenet1_1", "--card", "p150").stdout
    assert "no results are stored for n300" in run("--filter", "squeezenet", "--card", "n300").stdout
    assert json.loads(run("--filter", "squeezenet1_1", "--json").stdout)[0]["results"] == ROW


@pytest.mark.usefixtures("results")
def test_what_is_left_in_torch_has_no_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {key: value for key, value in ROW.items() if key not in ("rates", "best_batch", *RATES)}
    monkeypatch.setattr(stored, "stored_results", lambda: {"squeezenet1_1": {"n150": row}})
    assert "0.9971" in run("--filter", "squeezenet1_1").stdout


@pytest.mark.parametrize("columns", [120, 80, 50, 30])
def test_names_and_figures_at_any_width(columns: int) -> None:
    names = ("mobilenet_v1", "mobilenet_v2")
    lines = in_terminal(columns, "zoo", "--filter", "mobilenet_v")
    assert [line for line in lines if line.startswith(("┃", "│", "┏", "└")) and len(line) > columns] == []
    said = "\n".join(lines)
    rows = [stored.stored_results()[name]["n150"] for name in names]
    for figure in (*names, *(f"{row['device_fps']:.0f} (" for row in rows)):
        assert figure in said


def test_cards_of_several_chips_have_one_to_bring_models_up_on() -> None:
    assert [one_chip_of(card) for card in ("n150", "p150-13x10", "n300", "galaxy")] == [
        "n150",
        "p150-13x10",
        "n150",
        "n150",
    ]
