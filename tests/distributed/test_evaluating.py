# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn evaluate --ray`: the figures are those without it, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from tests.docs.bring_up import trained_stripes
from tt_cnn.cli import app
from tt_cnn.cli.ray_options import UNSAID, with_addresses
from tt_cnn.evaluation.drawn_data import DetectionShapes
from tt_cnn.evaluation.pictures import write_picture

DETECTOR = "tests.evaluation.stand_ins:DETECTOR"
SPEEDS = ("reference_per_second", "card_per_second")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["evaluate", *arguments])


def figures(*arguments: str, status: int = 0) -> dict[str, Any]:
    result = run(*arguments, "--json")
    assert result.exit_code == status, result.output + repr(result.exception)
    found: dict[str, Any] = json.loads(result.stdout)
    assert all(found.pop(name) > 0 for name in SPEEDS)
    return found


@pytest.fixture
def stripes(tmp_path: Path) -> list[str]:
    """The tutorial's model, and 20 images in folders of its classes; the second is none."""
    trained_stripes()
    from stripes.reference.model import StripesNet
    from stripes.reference.training import drawn_images

    images, labels = drawn_images(20, torch.Generator().manual_seed(4))
    for index, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / StripesNet.class_names[label]
        folder.mkdir(exist_ok=True)
        write_picture(folder / f"{index:02}.png", (image * 255).byte().permute(1, 2, 0).numpy())
    return ["stripes:ENTRY", "--data", str(tmp_path)]


def test_a_detector_s_figures_are_the_same(address: str, tmp_path: Path) -> None:
    DetectionShapes("val", size=(96, 64), count=30).write(tmp_path)
    arguments = [DETECTOR, "--data", str(tmp_path), "--count", "30", "--card", "p150"]
    without = figures(*arguments)
    assert without["pictures"] == 30 and without["reference"]["mAP"] > 0
    assert figures(*arguments, "--ray", address) == without


def test_an_image_that_cannot_be_read_is_reported_and_left_out(address: str, stripes: list[str]) -> None:
    without = figures(*stripes)
    bad = next(Path(stripes[-1]).rglob("*.png"))
    good = bad.read_bytes()
    bad.write_bytes(good[:40])
    result = run(*stripes, "--ray", address, "--actors", "1")
    assert result.exit_code == 1 and f"left out: {bad}: it cannot be read as an image" in result.stderr
    assert "19 " in result.stdout.splitlines()[0] and "(one actor)" in result.stdout
    bad.write_bytes(good)
    assert figures(*stripes, f"--ray={address}", "--threads", "2") == without


def test_no_image_at_all_is_a_mistake(address: str, stripes: list[str]) -> None:
    for path in Path(stripes[-1]).rglob("*.png"):
        path.write_bytes(b"")
    assert "none of the 20 images can be read; the first: " in str(run(*stripes, "--ray", address).exception)


@pytest.mark.parametrize(
    ("given", "joined"),
    [
        (["unet", "--ray"], ["unet", f"--ray={UNSAID}"]),
        (["--ray", "unet"], [f"--ray={UNSAID}", "unet"]),
        (["--ray", "mine:ENTRY"], [f"--ray={UNSAID}", "mine:ENTRY"]),
        (["--ray", "head:6379", "unet"], ["--ray=head:6379", "unet"]),
        (["unet", "--ray", "ray://head:10001", "--json"], ["unet", "--ray=ray://head:10001", "--json"]),
        (["--ray", "local", "--", "--ray", "auto"], ["--ray=local", "--", "--ray", "auto"]),
        (["unet", "--ray=[::1]:6379"], ["unet", "--ray=[::1]:6379"]),
    ],
)
def test_an_address_may_stand_behind_the_option(given: list[str], joined: list[str]) -> None:
    assert with_addresses(given) == joined


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--actors", "2"], "--actors belongs to --ray"),
        (["--ray=somewhere"], "--ray is 'somewhere'; it must be auto, local, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_mistakes_are_told_in_a_sentence(arguments: list[str], words: str) -> None:
    result = run("vanilla_unet", *arguments)
    assert result.exit_code == 2 and words in " ".join(result.stderr.split())


def test_more_actors_than_the_cluster_has_cards_for(address: str, stripes: list[str]) -> None:
    assert "--actors is 9; the cluster at" in str(run(*stripes, "--ray", address, "--actors", "9").exception)
