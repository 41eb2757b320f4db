# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn optimize` with the user's own weights, images and figure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner, Result

from tests.evaluation.stand_ins import SEGMENTER, SIZE, Brightness
from tt_cnn.cli import app
from tt_cnn.evaluation.pictures import write_picture
from tt_cnn.models import create_reference, create_tt, registry
from tt_cnn.models.running import opened_card
from tt_cnn.optimizer.calibration import MOST_IMAGES, batches, read_calibration


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_ins: None) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def weights(tmp_path: Path) -> str:
    """Weights with which the mask is where a picture is red."""
    model = Brightness()
    with torch.no_grad():
        model.conv.weight.zero_()
        model.conv.weight[0, 0, 1, 1] = 8.0
        assert model.conv.bias is not None
        model.conv.bias.fill_(-4.0)
    path = tmp_path / "weights.pt"
    torch.save(model.state_dict(), path)
    return str(path)


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Six pictures with masks that are right but for a stripe."""
    folder = tmp_path / "pictures"
    (folder / "images").mkdir(parents=True)
    (folder / "masks").mkdir()
    for number in range(6):
        red = np.random.default_rng(number).integers(0, 256, (SIZE, SIZE), dtype=np.uint8)
        mask = np.where(red > 127, 255, 0).astype(np.uint8)
        mask[:4] = 255
        write_picture(folder / "images" / f"{number}.png", np.stack((red, red // 2, red // 3), axis=2))
        write_picture(folder / "masks" / f"{number}.png", mask)
    return folder


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["optimize", "brightness", "--candidates", "40", *arguments])


def test_the_figure_is_shown_before_and_after(tmp_path: Path, weights: str, pictures: Path) -> None:
    where = tmp_path / "out"
    options = ("--weights", weights, "--data", str(pictures), "--min-metric", "80", "-o", str(where))
    result = run(*options, "--steps", "precision,conv2d")
    assert result.exit_code == 0, result.output + repr(result.exception)
    journal = json.loads((where / "journal.json").read_text())
    metric = journal["result"]["metric"]
    assert metric["name"] == "IoU" and metric["pictures"] == 3 and 80 < metric["reference"] < 100
    assert f"IoU {metric['before']:.2f} to {metric['after']:.2f} on 3 {pictures}" in result.stdout.splitlines()[0]
    assert journal["task"]["weights"] == weights and journal["task"]["min_metric"] == 80
    assert journal["task"]["min_pcc"] == 0.9, "the figure decides, and the PCC only keeps away what is far off"
    seeded = run("--resume", str(where), "--weights", "seeded")
    assert isinstance(seeded.exception, ValueError) and "is of weights" in str(seeded.exception)


def test_without_a_minimum_the_figure_is_only_shown(tmp_path: Path, weights: str, pictures: Path) -> None:
    options = ("--weights", weights, "--data", str(pictures), "--count", "1", "-o", str(tmp_path / "out"))
    result = run(*options, "--steps", "conv2d")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert f" on 1 {pictures}; verified" in result.stdout.splitlines()[0]
    journal = json.loads((tmp_path / "out" / "journal.json").read_text())
    assert journal["task"]["min_pcc"] == 0.99 and journal["task"]["min_metric"] is None


def test_the_guard_measures_on_the_calibration_images(
    tmp_path: Path, weights: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tt_cnn.optimizer.accuracy import ModelOnCard

    given = torch.rand(4, 3, SIZE, SIZE)
    np.save(tmp_path / "images.npy", given.numpy())
    seen: list[torch.Tensor] = []
    own = ModelOnCard.outputs
    monkeypatch.setattr(
        ModelOnCard, "outputs", lambda self, assignment, images: (seen.append(images), own(self, assignment, images))[1]
    )
    options = ("--weights", weights, "--calibration", str(tmp_path / "images.npy"), "-o", str(tmp_path / "out"))
    result = run(*options, "--steps", "precision")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert seen and all(any(torch.equal(one, image[None]) for image in given) for one in seen)
    assert any(torch.equal(one, given[:1]) for one in seen), "the first is one to choose by"


@pytest.mark.parametrize("kind", ["folder", ".pt", "list.pt", ".npy", ".safetensors"])
def test_calibration_is_read_from_all_its_forms(kind: str, tmp_path: Path, pictures: Path) -> None:
    from safetensors.torch import save_file

    images = torch.rand(3, 3, SIZE, SIZE)
    path = tmp_path / f"given{kind}"
    if kind == "folder":
        path = pictures / "images"
    elif kind == ".npy":
        np.save(path, images.numpy())
    elif kind == ".safetensors":
        save_file({"a": images[:1], "b": images[1:]}, path)
    else:
        torch.save(images if kind == ".pt" else [images[:2], images[2:]], path)
    read = read_calibration(path, SEGMENTER, (SIZE, SIZE))
    assert len(read.images) == (6 if kind == "folder" else 3)
    assert len(read.chosen) == (3 if kind == "folder" else 2)
    assert {tuple(image.shape) for image in read.images} == {(1, 3, SIZE, SIZE)}
    if kind != "folder":
        assert all(torch.equal(one[0], image) for one, image in zip(read.images, images, strict=True))
    filled = batches(read.unseen, 4)
    assert [tuple(batch.shape) for batch in filled] == [(4, 3, SIZE, SIZE)]
    assert all(any(torch.equal(image, one[0]) for one in read.unseen) for image in filled[0])


def test_of_many_images_some_are_taken_evenly(tmp_path: Path) -> None:
    values = torch.arange(100.0).reshape(-1, 1, 1, 1).expand(-1, 3, SIZE, SIZE)
    np.save(tmp_path / "many.npy", values.numpy())
    taken = [int(image[0, 0, 0, 0]) for image in read_calibration(tmp_path / "many.npy", SEGMENTER, (SIZE,) * 2).images]
    assert len(taken) == MOST_IMAGES and taken[0] == 0 and taken[-1] == 99 and taken == sorted(set(taken))


class Evil:
    """A pickle that would run code."""

    def __reduce__(self) -> Any:
        return print, ("run",)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (None, "nowhere", "there is no such file or folder"),
        (Evil(), "a.pt", "would run code of its maker"),
        (b"x", "a.pt", "damaged or no checkpoint"),
        (b"x", "a.npy", "damaged or no array"),
        (b"x", "a.safetensors", "damaged or no safetensors"),
        (torch.rand(2, 3, 8, 8), "a.pt", "a tensor of 2x3x8x8; it must be Nx3x64x64"),
        (torch.zeros(2, 3, SIZE, SIZE, dtype=torch.uint8), "a.pt", "must be floats, normalised"),
        (torch.full((2, 3, SIZE, SIZE), torch.nan), "a.pt", "a NaN or an infinity"),
        (torch.rand(1, 3, SIZE, SIZE), "a.pt", "holds 1 image; there must be at least 2"),
        ({"a": 3}, "a.pt", "holds a int; it must hold tensors alone"),
    ],
)
def test_a_bad_calibration_is_told_and_leaves_nothing(content: Any, name: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / name
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    result = run("--calibration", str(path), "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, (ValueError, OSError)) and message in str(result.exception)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--min-metric", "50"), "--min-metric needs trained weights, and these are random"),
        (("--data", "generated"), "--data needs trained weights"),
        (("--weights", "WEIGHTS", "--min-metric", "0.5", "--data", "generated"), "it is in points"),
        (("--weights", "WEIGHTS", "--min-metric", "101", "--data", "generated"), "at most 100"),
        (("--weights", "WEIGHTS", "--min-metric", "50"), "--data says which"),
        (("--weights", "WEIGHTS", "--data", "nowhere"), "there is no such folder"),
        (("--weights", "nowhere.pt"), "beside files there are shipped, public and seeded"),
        (("--weights", "shipped"), "no weights of Brightness are shipped"),
    ],
)
def test_bad_weights_and_figures_are_told_and_leave_nothing(
    arguments: tuple[str, ...], message: str, tmp_path: Path, weights: str
) -> None:
    result = run(*(weights if each == "WEIGHTS" else each for each in arguments), "-o", str(tmp_path / "out"))
    assert isinstance(result.exception, (ValueError, OSError)) and message in str(result.exception)
    assert not (tmp_path / "out").exists()


def test_a_config_of_a_smaller_network_is_not_for_the_full_one(tmp_path: Path) -> None:
    """Shipped weights may be of a narrower network: the search plans that one, and its result is for it alone."""
    where = tmp_path / "out"
    arguments = ["vanilla_unet", "--weights", "shipped", "--steps", "memory", "--candidates", "3", "--count", "1"]
    result = CliRunner().invoke(app, ["optimize", *arguments, "-o", str(where)])
    assert result.exit_code == 0, result.output + repr(result.exception)
    made_for = json.loads((where / "config.json").read_text())["made_for"]
    small = create_reference("vanilla_unet", shipped=True)
    assert made_for["parameters"] == sum(each.numel() for each in small.parameters())
    with opened_card(registry.model_entry("vanilla_unet"), card="n150", executor="plain") as device:
        create_tt("vanilla_unet", device, small, config=where / "config.json")
        full = registry.model_entry("vanilla_unet").reference().eval()
        with pytest.raises(ValueError, match="was made for parameters"):
            create_tt("vanilla_unet", device, full, config=where / "config.json")


def test_help_teaches_weights_and_figures() -> None:
    text = " ".join(CliRunner().invoke(app, ["optimize", "--help"]).stdout.split())
    for words in ("--weights WHICH", "--calibration PATH", "--min-metric POINTS", "--weights shipped --min-metric 80"):
        assert words in text
