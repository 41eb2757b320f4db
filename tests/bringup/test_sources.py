# SPDX-License-Identifier: Apache-2.0
"""What MODEL may be: files and names of timm's, through the whole command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from torch import nn
from typer.testing import CliRunner

from tests.bringup import small_nets
from tests.bringup.files import save_onnx, save_pt2
from tt_cnn.bringup.inputs import example
from tt_cnn.bringup.source import give_weights
from tt_cnn.bringup.sources import source_of
from tt_cnn.cli.application import app

IMAGE = (1, 3, 32, 32)


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bringup", *arguments])
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
def test_a_file_becomes_a_folder_that_needs_it_no_more(suffix: str, tmp_path: Path) -> None:
    save = save_pt2 if suffix == "pt2" else save_onnx
    file = save(small_nets.SmallResNet(), [torch.randn(IMAGE)], tmp_path / f"my-net.{suffix}")
    target = tmp_path / "out" / "my_net"
    code, said = command(str(file), "--budget", "0", "-o", str(target))
    assert code == 0, said
    assert "1x3x32x32 comes up on n150" in said and "passed" in said
    file.unlink()
    checked = "import my_net; model = my_net.ENTRY.reference(); print(type(model).__name__, len(model.state_dict()))"
    hidden = f"import sys; sys.modules['onnx'] = None; {checked}"
    done = subprocess.run([sys.executable, "-c", hidden], cwd=target.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["SmallResNet" if suffix == "pt2" else "MyNet", "74"]
    assert {each.name for each in (target / "reference").iterdir() if each.is_file()} == {
        *("__init__.py", "graph.json", "model.py", "weights.safetensors")
    }


def test_weights_of_another_file(tmp_path: Path) -> None:
    file = save_pt2(small_nets.SmallUNet(), [torch.randn(IMAGE)], tmp_path / "net.pt2")
    torch.save(small_nets.SmallUNet().state_dict(), tmp_path / "other.pt")
    more = ("--weights", str(tmp_path / "other.pt"), "--budget", "0", "--no-tests", "-o", str(tmp_path / "net"))
    code, said = command(str(file), *more)
    assert code == 0, said


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("nothing.onnx", "there is no such file"),
        ("weights.pth", "a checkpoint, which has weights and no model"),
        ("net.h5", "it must be like net.py:Net, package.module:create, net.pt2, net.onnx or timm:resnet18"),
        ("timm:a b", "it must be like timm:resnet18"),
        ("tests.bringup.small_nets:SmallResNet", "--input is missing"),
    ],
)
def test_what_is_no_model(model: str, said: str) -> None:
    code, output = command(model)
    assert code == 1 and said in output


def test_files_under_the_wrong_name(tmp_path: Path) -> None:
    file = save_pt2(small_nets.SmallUNet(), [torch.randn(IMAGE)], tmp_path / "net.pt2")
    wrong = file.rename(tmp_path / "net.onnx")
    code, output = command(str(wrong))
    assert code == 1 and "net.onnx" in output and ("no ONNX file" in output or "ONNX's checker" in output)
    save_onnx(small_nets.SmallUNet(), [torch.randn(IMAGE)], tmp_path / "other.onnx").rename(tmp_path / "other.pt2")
    code, output = command(str(tmp_path / "other.pt2"))
    assert code == 1 and "no .pt2 file" in output


# -- timm


def test_timm_that_is_missing_or_lacks_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    code, output = command("timm:resnet18")
    assert code == 1 and "timm cannot be imported" in output and "pip install timm" in output


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A timm with one model."""
    made = ModuleType("timm")

    def create_model(name: str, pretrained: bool) -> nn.Module:
        if name != "small_unet.a1" or pretrained:
            raise RuntimeError(f"Unknown model ({name})")
        model = small_nets.SmallUNet()
        model.default_cfg = {"input_size": (3, 32, 32)}  # type: ignore[assignment]
        return model

    made.create_model = create_model  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "timm", made)
    return made


def test_a_model_of_timm(stand_in: ModuleType, tmp_path: Path) -> None:
    target = tmp_path / "small"
    code, said = command("timm:small_unet.a1", "--budget", "0", "--no-tests", "-o", str(target))
    assert code == 0, said
    assert "SmallUNet 1x3x32x32 comes up" in said
    assert 'timm.create_model("small_unet.a1", pretrained=False)' in (target / "reference/model.py").read_text()
    assert source_of("timm:small_unet.a1", [(2, 3, 64, 64)])[1] == ((2, 3, 64, 64),)


def test_names_that_timm_has_not(stand_in: ModuleType) -> None:
    code, said = command("timm:nothing")
    assert code == 1 and "Unknown model (nothing)" in said and "list_models" in said
    stand_in.create_model = lambda name, pretrained: SimpleNamespace()  # type: ignore[attr-defined]
    code, said = command("timm:other")
    assert code == 1 and "gives a SimpleNamespace" in said


class OfOneImage(nn.Module):
    """Takes a batch of one alone, and wants targets while it is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
        self.drop = nn.Dropout(0.9)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise ValueError("targets must be given")
        return self.drop(self.norm(self.conv(x))).view(1, 8, 14, 14)


def test_statistics_are_measured_on_the_batch_that_a_model_takes() -> None:
    torch.manual_seed(0)
    model = OfOneImage().eval()
    assert "measured" in give_weights(model, None, [(1, 3, 16, 16)]).origin
    assert not model.training and model.norm.momentum == 0.1
    assert float(model.norm.running_mean.abs().max()) > 0  # type: ignore[union-attr]
    with torch.no_grad():
        seen = torch.cat([model.conv(example((1, 3, 16, 16), seed=seed)) for seed in (1, 2)])
    assert torch.allclose(model.norm.running_mean, seen.mean((0, 2, 3)), atol=1e-5)  # type: ignore[arg-type]
