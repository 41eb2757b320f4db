# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn weights`: lists, takes files at hand, refuses what does not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from tt_cnn.cli import app
from tt_cnn.models import create_reference
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.preprocessing.weights import SOURCES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "weights"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    torch.save(UNet().state_dict(), tmp_path / "own.pt")
    return tmp_path / "own.pt"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["weights", *arguments])


def test_known_files_are_listed() -> None:
    text = "".join(run().stdout.split())
    for source in SOURCES:
        assert source.file in text and source.sha256[:8] in text


def test_a_file_at_hand(checkpoint: Path, cache: Path) -> None:
    found = run("unet", "--path", str(checkpoint))
    assert found.exit_code == 0, found.output
    kept = cache / "vanilla_unet" / "own.pt"
    assert f"{kept} (31.1 MB)" in found.stdout and "none was known beforehand" in found.stdout
    assert f"create_reference('vanilla_unet', weights={str(kept)!r})" in found.stdout
    model = create_reference("vanilla_unet", weights=kept)
    assert not model.training
    assert torch.equal(model.state_dict()["conv.weight"], torch.load(checkpoint, weights_only=True)["conv.weight"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "there is no model 'nothing'"),
        (["resnet50", "--path", "{file}", "--url", "https://example.org/a.pt"], "were both given"),
        (["resnet50", "--path", "{file}"], "does not fit"),
        (["resnet50", "--path", "{file}.missing"], "there is no such file"),
        (["resnet50", "--file", "other.pth"], "there are resnet50-0676ba61.pth, resnet50-11ad3fa6.pth"),
        (["resnet50", "--url", "ftp://example.org/a.pt"], "not a web address"),
    ],
)
def test_mistakes(arguments: list[str], words: str, checkpoint: Path) -> None:
    found = run(*(argument.format(file=checkpoint) for argument in arguments))
    assert found.exit_code != 0 and words in str(found.exception)


def test_weights_come_from_one_place(checkpoint: Path) -> None:
    for other in ({"seed": 1}, {"shipped": True}):
        with pytest.raises(ValueError, match="only one can be given"):
            create_reference("vanilla_unet", weights=checkpoint, **other)
