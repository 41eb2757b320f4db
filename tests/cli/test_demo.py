# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn demo`: pictures and videos with what a model sees, and the bring-up."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tt_cnn.cli import app, demo_stages
from tt_cnn.evaluation.drawing import GAP
from tt_cnn.evaluation.pictures import read_picture, write_picture
from tt_cnn.evaluation.video import VideoWriter, opened_video
from tt_cnn.models import ModelEntry, registry
from tt_cnn.virtual.devices.opening import open_devices


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["demo", *arguments])


def fine(*arguments: str) -> str:
    result = run(*arguments)
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert open_devices() == []
    return result.stdout


def stripes_across(rows: int, columns: int) -> np.ndarray:
    level = np.where(np.arange(rows) % 12 < 6, 250, 20).astype(np.uint8)
    return np.repeat(level[:, None, None], columns, axis=1).repeat(3, axis=2)


def test_a_picture_is_classified_beside_the_reference(stripes: str, tmp_path: Path) -> None:
    write_picture(tmp_path / "one.png", stripes_across(64, 64))
    result = run(stripes, "--image", str(tmp_path / "one.png"), "-o", str(tmp_path / "out"))
    assert "one: across 100%" in result.stderr or "one: across 9" in result.stderr
    assert "fps on this machine's CPU" in result.stdout and "1 image in" in result.stdout
    sheet = read_picture(tmp_path / "out" / "stripes" / "one.png")
    width = (sheet.shape[1] - 3 * GAP) // 2
    left, right = sheet[40:200, GAP : GAP + width], sheet[40:200, 2 * GAP + width : 2 * GAP + 2 * width]
    assert np.array_equal(left, right)


def test_a_second_run_does_not_touch_the_first(stripes: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("a", "b"):
        write_picture(tmp_path / "in" / f"{name}.png", stripes_across(40, 80))
    options = (stripes, "--image", str(tmp_path / "in"), "-o", str(tmp_path / "out"))
    fine(*options)
    fine(*options, "--count", "1")
    fine(*options, "--count", "1", "--force")
    found = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*.png"))
    assert found == ["stripes-2/a.png", "stripes/a.png"]


def test_a_video_becomes_a_video(stripes: str, tmp_path: Path) -> None:
    with VideoWriter(tmp_path / "clip.mp4", Fraction(5)) as writer:
        for _ in range(10):
            writer.write(stripes_across(64, 64))
    text = fine(
        stripes, "--video", str(tmp_path / "clip.mp4"), "--pipeline", "trace+2cq+io", "-o", str(tmp_path / "out")
    )
    assert "10 frames in" in text and "trace+2cq+io" in text
    with opened_video(tmp_path / "out" / "stripes" / "clip.mp4") as (frames, rate, _):
        read = list(frames)
    assert rate == 5 and len(read) == 10 and read[0].shape[1] > read[0].shape[0]


@pytest.mark.usefixtures("stand_ins")
@pytest.mark.parametrize(("model", "panels"), [("brightness", 3), ("cells", 2)])
def test_pictures_are_drawn_where_none_are_given(tmp_path: Path, model: str, panels: int) -> None:
    fine(model, "--count", "2", "--threshold", "0.4", "-o", str(tmp_path))
    sheets = [read_picture(path) for path in sorted((tmp_path / model).iterdir())]
    assert len(sheets) == 2
    assert sheets[0].shape[1] == panels * 360 + (panels + 1) * GAP


@pytest.mark.usefixtures("stand_ins")
def test_every_stage_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_stages, "MODELS", ("brightness", "cells"))
    text = fine("--card", "p150", "--count", "1", "-o", str(tmp_path / "out"))
    for word in ("weights", "reference", "layers", "first run", "L1", "comparison", "pipeline", "images"):
        assert text.count(f"  {word}") >= 2
    assert "PCC of confidences with PyTorch 0.9" in text and "virtual p150" in text and "KB free" in text
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["brightness_0.png", "cells_0.png"]


@pytest.mark.usefixtures("stand_ins")
def test_a_stage_fails_under_the_gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = registry.model_entry("brightness")
    monkeypatch.setitem(registry._ENTRIES, "brightness", ModelEntry(**{**vars(entry), "gates": {"mask": 1.1}}))
    monkeypatch.setattr(demo_stages, "MODELS", ("brightness",))
    result = run("--count", "1", "-o", str(tmp_path))
    assert result.exit_code != 0 and "it must be at least 1.1" in str(result.exception)
    assert open_devices() == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--image", "a.png"], "name the model that this is for"),
        (["stripes:ENTRY", "--image", "a.png", "--video", "a.mp4"], "--image and --video were both given"),
    ],
)
def test_what_does_not_go_together_is_refused(stripes: str, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["stripes:ENTRY", "--image", "nowhere.png"], "nowhere.png: there is no such file or folder"),
        (["stripes:ENTRY", "--video", "nowhere.mp4"], "nowhere.mp4: there is no such video"),
        (["stripes:ENTRY", "--card", "e75"], "the virtual cards are n150, n300, t3000, galaxy, p150"),
    ],
)
def test_mistakes_are_told(
    stripes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code != 0 and words in str(result.exception)


def test_help_teaches() -> None:
    text = " ".join(run("--help").stdout.split())
    for word in ("tt-cnn demo yolov4", "--video", "--pipeline", "--force", "UNet and YOLOv4 are brought up"):
        assert word in text


@pytest.mark.parametrize(
    ("package", "options"), [("PIL", ()), ("PIL", ("yolov4",)), ("av", ("yolov4", "--video", "street.mp4"))]
)
def test_a_missing_package_is_said_before_anything_is_built(
    package: str, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("tt_cnn.models.create_tt", lambda *_, **__: pytest.fail("a model was built"))
    result = CliRunner().invoke(app, ["demo", *options, "-o", str(tmp_path / "out")])
    assert isinstance(result.exception, ImportError)
    assert f"needs the package of '{package}', which is not installed: pip install 'tt-cnn[" in str(result.exception)
    assert not (tmp_path / "out").exists()
