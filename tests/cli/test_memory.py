# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn memory`: the answer, the timeline, the exit status."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.optimizer.residual import ENTRY, TtResidual, registered
from tt_cnn import ttnn
from tt_cnn.builder.overrides import read_settings
from tt_cnn.cli import app
from tt_cnn.virtual import arch


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["memory", *arguments])


def test_a_model_that_fits(tmp_path: Path) -> None:
    page = tmp_path / "more" / "memory.html"
    result = run("vanilla_unet", "--timeline", "--html", str(page))
    assert result.exit_code == 0, result.output + repr(result.exception)
    lines = result.stdout.splitlines()
    assert lines[0].startswith("vanilla_unet 480x640 on n150: fits.  peak ")
    assert lines[1].startswith("needs l1_small_size >= ") and lines[2].startswith("tightest: ")
    assert sum(" KB buffers " in line for line in lines) > 50
    assert page.read_text().startswith("<!doctype html>")
    again = run("vanilla_unet", "--html", str(page))
    assert isinstance(again.exception, FileExistsError)


def test_another_card_and_size() -> None:
    result = run("resnet50", "--card", "p150", "--batch", "16", "--executor", "plain")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert result.stdout.startswith("resnet50 224x224 batch 16 on p150: fits.")
    assert "--timeline, or --html FILE" in result.stdout


def test_a_model_that_does_not_fit_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(arch.CARDS["n150"], l1_size=arch.CARDS["n150"].l1_size - 60 * 1024)
    monkeypatch.setitem(arch.CARDS, "n150", small)
    result = run("vanilla_unet")
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert "does not fit" in result.stdout and "held by:" in result.stdout and "fits:" in result.stdout


def test_settings_that_fit_are_written(tmp_path: Path) -> None:
    class Large(TtResidual):
        weights_dtype = ttnn.bfloat16

    file = tmp_path / "more" / "settings.json"
    with registered(replace(ENTRY, name="large_residual", tt=Large)):
        result = run("large_residual", "--settings", str(file))
        assert result.exit_code == 1 and f"settings: {file}" in result.stdout.replace("\n", "")
        assert list(read_settings(file)) == ["layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2"]
        again = run("large_residual", "--settings", str(file))
        assert isinstance(again.exception, FileExistsError)
