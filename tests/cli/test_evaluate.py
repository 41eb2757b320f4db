# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn evaluate`: its figures, its formats, its mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from tt_cnn.cli import app
from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.evaluation.pictures import write_picture
from tt_cnn.models import EXECUTORS, create_reference


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["evaluate", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


@pytest.fixture
def pictures(stripes: str, tmp_path: Path) -> Path:
    """Two pictures of each class that occurs, in folders of the classes' names."""
    from stripes.reference.model import StripesNet
    from stripes.reference.training import drawn_images

    images, labels = drawn_images(6, torch.Generator().manual_seed(4))
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / "pictures" / StripesNet.class_names[label]
        folder.mkdir(parents=True, exist_ok=True)
        write_picture(folder / f"{index}.png", (image * 255).byte().permute(1, 2, 0).numpy())
    return tmp_path / "pictures"


def test_a_folder_of_classes_gives_top_1_and_top_5(stripes: str, pictures: Path) -> None:
    figures = told(stripes, "--data", str(pictures))
    assert figures["reference"] == {"top-1": 100.0, "top-5": 100.0} == figures["card"]
    assert figures["pictures"] == 6 and figures["weights"] == "shipped weights" and figures["on"] == "virtual n150"
    text = run(stripes, "--data", str(pictures), "--count", "2", "--within", "0").stdout
    assert "StripesNet at 64x64, shipped weights, 2" in text
    assert "virtual n150" in text and "top-1, were PyTorch right" in text


def test_other_weights_cards_and_executors(stripes: str, pictures: Path, tmp_path: Path) -> None:
    torch.save(create_reference("stripes", seed=3).state_dict(), tmp_path / "mine.pth")
    options = ("--count", "3", "--card", "p150", "--executor", "plain", "--precision", "bfloat16")
    figures = told(stripes, "--data", str(pictures), *options, "--weights", str(tmp_path / "mine.pth"))
    assert figures["on"] == "virtual p150" and figures["weights"].endswith("mine.pth")
    assert figures["reference"]["top-1"] < 100
    assert told(stripes, "--data", str(pictures), "--weights", "seeded")["weights"] == "seeded (random) weights"


@pytest.mark.usefixtures("stand_ins")
def test_generated_pictures_work_out_of_the_box(tmp_path: Path) -> None:
    assert set(told("brightness", "--count", "2")["reference"]) == {"IoU", "Dice"}
    generated = told("cells", "--count", "2")
    assert set(generated["reference"]) == {"mAP", "mAP50", "mAP75"} and generated["data"] == "generated images"
    DetectionShapes("val", size=(64, 64), count=2).write(tmp_path / "set")
    read = told("cells", "--data", str(tmp_path / "set"))
    assert read["reference"] == pytest.approx(generated["reference"])
    assert read["card"] == pytest.approx(generated["card"])


def test_photographs_are_compared_with_pytorch_s_answers(stripes: str) -> None:
    figures = told(stripes, "--data", "skimage", "--count", "3")
    assert figures["reference"] == {} and figures["pictures"] == 3
    assert figures["data"] == "photographs of scikit-image"


def test_a_difference_that_is_too_large_fails(stripes: str, pictures: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tt_cnn.models.running import RunningModel

    monkeypatch.setattr(RunningModel, "run", lambda self, images: [(torch.zeros(1, 4),) for _ in images])
    result = run(stripes, "--data", str(pictures), "--within", "1")
    assert result.exit_code == 1
    assert "missed  top-1, from PyTorch: " in result.stderr and "points, within 1 is needed" in result.stderr
    assert "another first class than PyTorch's" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bert"], "there is no model 'bert'"),
        (["stripes:NOTHING"], "the module stripes has no NOTHING"),
        (["stripes:register"], "it must be a tt_cnn.models.ModelEntry"),
        (["stripes:ENTRY", "--data", "nowhere"], "nowhere: there is no such folder"),
        (["stripes:ENTRY", "--data", "generated"], "no images are generated for classification"),
        (["stripes:ENTRY", "--weights", "nowhere.pth"], "nowhere.pth: there is no such file"),
        (["stripes:ENTRY", "--resolution", "big"], "it must be like 320x320, height first"),
        (["stripes:ENTRY", "--resolution", "32x32"], "StripesNet is tuned for 64x64"),
        (["stripes:ENTRY", "--precision", "int8"], "--precision is 'int8'; it must be tuned or bfloat16"),
        (["stripes:ENTRY", "--executor", "3cq"], "executor is '3cq'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(stripes: str, arguments: list[str], words: str) -> None:
    result = run(*arguments)
    assert result.exit_code != 0
    assert words in str(result.exception)


def test_help_names_every_executor_and_format() -> None:
    text = " ".join(run("--help").stdout.split())
    assert ", ".join(EXECUTORS) in text
    for word in ("annotations.json", "masks/NAME.png", "CLASS/NAME.jpg", "--within", "tt-cnn evaluate vanilla_unet"):
        assert word in text
