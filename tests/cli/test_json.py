# SPDX-License-Identifier: Apache-2.0
"""`--json` wherever a table is printed: one document on the standard output, with the table's numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tt_cnn.cli import app
from tt_cnn.cli.application import app as commands
from tt_cnn.preprocessing.weights import SOURCES
from tt_cnn.reports.profile_json import load_profile

WITHOUT_TABLES = {"bringup", "complete", "completion", "demo", "run", "serve", "visualize"}


def told(*arguments: str, status: int = 0) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--json"])
    assert result.exit_code == status, result.output + repr(result.exception)
    return json.loads(result.stdout)


def test_every_command_with_a_table_has_it() -> None:
    for command in commands.registered_commands:
        text = CliRunner().invoke(app, [str(command.name), "--help"]).stdout
        assert ("--json" in text) == (command.name not in WITHOUT_TABLES), command.name


def test_profile(tmp_path: Path) -> None:
    figures = told("profile", "mobilenetv2", "--top", "3", "-o", str(tmp_path / "out"))
    profile = load_profile(tmp_path / "out")
    assert figures["device_ns"] == pytest.approx(profile.device_ns) and figures["l1_peak"] == profile.l1_peak
    assert sum(one["ns"] for one in figures["by_op"]) == pytest.approx(profile.device_ns)
    assert len(figures["longest"]) == 3 and figures["longest"][0]["ns"] == max(r.cost.ns for r in profile.rows)
    assert [one["executor"] for one in figures["executors"]] == [one.executor for one in profile.executors]
    assert len(figures["findings"]) == len(profile.findings or ()) and "profile.json" in figures["files"]


def test_memory(tmp_path: Path) -> None:
    figures = told("memory", "mobilenetv2", "--timeline", "--html", str(tmp_path / "memory.html"))
    assert figures["fits"] and figures["l1_peak"] == figures["l1_size"] - min(one["free"] for one in figures["steps"])
    assert (tmp_path / "memory.html").is_file() and figures["misfits"] == []


def test_memory_and_profile_agree(tmp_path: Path) -> None:
    shared = ("l1_peak", "l1_size", "tightest", "l1_small_size", "trace_region_size")
    memory, profile = told("memory", "resnet50"), told("profile", "resnet50", "-o", str(tmp_path / "out"))
    assert [memory[name] for name in shared] == [profile[name] for name in shared]


def test_weights() -> None:
    assert [(one["model"], one["file"]) for one in told("weights")] == [(one.model, one.file) for one in SOURCES]


def test_bench(stripes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))
    figures = told("bench", stripes, "--engine", "torch", "--rounds", "1", "--explain", "-o", str(tmp_path / "out"))
    assert figures == json.loads((tmp_path / "out" / "bench.json").read_text()) and len(figures["rows"]) == 1


def test_optimize(tmp_path: Path, stripes: str) -> None:
    options = ("--candidates", "5", "--no-record", "-o", str(tmp_path / "out"))
    figures = told("optimize", stripes, *options)
    assert figures["before"]["device_ns"] >= figures["after"]["device_ns"] > 0
    assert (figures["accurate"], figures["goal"]) == (True, "latency")
    assert "config.json" in figures["files"]


def test_what_optimize_would_try(stripes: str) -> None:
    figures = told("optimize", stripes, "--explain")
    assert figures["search_steps"] and "findings" in figures
