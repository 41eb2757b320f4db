# SPDX-License-Identifier: Apache-2.0
"""The whole bring-up of small models: the folder, its tests, its demo, and what happens to a user's edits."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from tests.bringup import small_nets
from tt_cnn.bringup import own_lowerings
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.codegen.files import WHOLE_SEEDS
from tt_cnn.bringup.folder import Edited, GeneratedFolder
from tt_cnn.bringup.inputs import input_shape
from tt_cnn.bringup.source import model_source
from tt_cnn.bringup.torch_graph import ExportFailed, export_graph
from tt_cnn.cli.application import app
from tt_cnn.models.layer_factory import LayerFactory

SOURCE = Path(small_nets.__file__)


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bringup", *arguments])
    return result.exit_code, result.output + (str(result.exception) if result.exception else "")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("brought_up") / "small_resnet"
    code, said = command(f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "--budget", "0", "-o", str(target))
    assert code == 0, said
    assert "SmallResNet 1x3x32x32 comes up on n150" in said and "passed" in said
    return target


def test_the_folder_has_the_structure_of_the_guide(folder: Path) -> None:
    wanted = (
        "reference/model.py",
        "tt/common.py",
        "tt/config.py",
        "tt/model.py",
        "tests/test_model.py",
        "demo/demo.py",
    )
    assert all((folder / name).is_file() for name in ("__init__.py", "README.md", *wanted))
    assert (folder / "docs/inventory.md").is_file() and (folder / "profile/report.html").is_file()


def test_the_code_has_the_models_classes_loops_and_optional_layers(folder: Path) -> None:
    code = (folder / "tt/model.py").read_text()
    assert code.count("class Tt") == 2 and "class TtBlock:" in code and "class TtSmallResNet(" in code
    assert "for block in self.layer1:" in code and "for block in self.layer2:" in code
    assert 'layers.conv2d(f"{name}.conv1", module.conv1, module.bn1, activation=nn.ReLU())' in code
    assert "y = x if self.downsample is None else self.downsample(x)" in code
    assert max(map(len, code.splitlines())) <= 120


def test_without_pytest_the_tests_are_not_run_and_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As after a plain `pip install tt-cnn`."""
    monkeypatch.setattr("tt_cnn.cli.bringup.find_spec", lambda name: None)
    code, said = command(f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "--budget", "0", "-o", str(tmp_path / "net"))
    assert code == 0 and "pip install pytest" in said and "FAILED" not in said


def test_generated_code_is_clean(folder: Path) -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "E4,E7,E9,F", str(folder)],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_demo_runs(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"{folder.name}.demo.demo"], cwd=folder.parent, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("PCC 0.99") == 4


def test_a_second_run_writes_the_same_code_and_keeps_edits(folder: Path) -> None:
    again = (f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "--budget", "0", "-o", str(folder), "--no-tests")
    before = (folder / "tt/model.py").read_text()
    assert command(*again)[0] == 0
    assert (folder / "tt/model.py").read_text() == before
    edited = before.replace("class TtBlock:", "class TtBlock:  # mine")
    (folder / "tt/model.py").write_text(edited)
    code, said = command(*again)
    assert code == 1 and "tt/model.py" in said and "--update" in said
    config = (folder / "tt/config.py").read_text()
    assert command(*again, "--update")[0] == 0
    assert (folder / "tt/model.py").read_text() == edited
    assert (folder / "tt/config.py").read_text() == config
    (folder / "tt/model.py").write_text(before)


def test_skips_and_several_outputs() -> None:
    work = BringUp(model_source(f"{SOURCE}:SmallUNet"), (2, 3, 32, 32))
    work.load()
    work.export()
    work.lower()
    work.fit()
    assert work.accuracy is not None and work.accuracy.passed
    assert set(work.accuracy.pcc) == {"output1", "output2"}
    report, points = work.compare()
    assert report.passed and set(points) >= {"down", "deep", "up", "last"}


def test_names_that_are_taken_on_the_card() -> None:
    work = BringUp(model_source("tests.bringup.small_nets:AwkwardNames"), (1, 3, 32, 32))
    work.load()
    work.lower()
    work.fit()
    assert work.accuracy is not None and work.accuracy.passed
    report, points = work.compare()
    assert report.passed and {"layers.0", "device", "outputs.in", "outputs.x", "class"} <= set(points)


def test_several_inputs(tmp_path: Path) -> None:
    target = tmp_path / "two_inputs"
    code, said = command(
        f"{SOURCE}:TwoInputs", "--input", "1x3x32x32", "--input", "1x8", "--budget", "3s", "-o", str(target)
    )
    assert code == 0, said
    assert "passed" in said and "y, x = inputs" in (target / "tt/model.py").read_text()
    done = subprocess.run([sys.executable, "-m", "two_inputs.demo.demo"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("PCC 0.99") == 4, done.stderr


def test_an_input_that_is_one_for_the_whole_batch(tmp_path: Path) -> None:
    """The vector is added to all images; what the folder draws for its tests has the shapes that were given."""
    target = tmp_path / "one_vector"
    inputs = ["--input", "2x3x32x32", "--input", "1x8"]
    code, said = command(f"{SOURCE}:TwoInputs", *inputs, "--budget", "0", "-o", str(target))
    assert code == 0 and "passed" in said, said


def test_a_model_that_changes_its_input_is_compared_on_the_same_images() -> None:
    """Were the card given what the reference has left of the image, its output would be another one."""
    work = BringUp(model_source(f"{SOURCE}:ChangesItsInput"), (1, 3, 24, 32))
    work.load()
    work.lower()
    work.fit()
    assert work.accuracy is not None and work.accuracy.pcc["output"] > 0.999
    for sample, seed in zip(work.samples, WHOLE_SEEDS, strict=True):
        assert torch.equal(sample.images, work.example(seed))
    report, points = work.compare()
    assert report.passed and "conv" in points


def test_an_output_of_one_value_is_held_to_a_gate(tmp_path: Path) -> None:
    """A PCC of one value is 1 or 0; both inputs must differ, or the distance would be 0 whatever the card does."""
    target = tmp_path / "distance"
    inputs = ["--input", "1x3x32x32", "--input", "1x3x32x32"]
    code, said = command(f"{SOURCE}:Distance", *inputs, "--budget", "0", "-o", str(target))
    assert code == 0, said
    (gate,) = re.findall(r'gates=\{"output": ([0-9.]+)\}', (target / "__init__.py").read_text())
    assert float(gate) > 0.8 and "passed" in said
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "distance/tests"]
    done = subprocess.run(tests, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_module_with_a_lowering_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_lowerings, "_REGISTERED", {})
    model = small_nets.WithOwnLayer()
    with pytest.raises(ExportFailed):
        export_graph(model, [torch.randn(1, 3, 16, 16)])
    own_lowerings.register_lowering(small_nets.Data, "tests.bringup.small_nets:make_data")
    work = BringUp(model_source("tests.bringup.small_nets:WithOwnLayer"), (1, 3, 32, 32))
    work.load()
    work.lower()
    work.fit()
    assert work.accuracy is not None and work.accuracy.passed
    assert 'layers.registered("own", reference.own, "tests.bringup.small_nets:make_data")' in work.code.code
    report, points = work.compare()
    assert report.passed and "own" in points


def test_what_the_card_has_not_runs_in_torch_and_is_said(tmp_path: Path) -> None:
    code, said = command(f"{SOURCE}:OnHost", "--input", "1x3x32x32", "--budget", "0", "-o", str(tmp_path / "on_host"))
    assert code == 0, said
    assert "in torch: aten.special_bessel_j0.default" in said and "B to the host" in said
    assert list((tmp_path / "on_host/docs/issues").glob("*.md"))


def test_a_card_of_several_chips_gets_what_one_of_them_runs(tmp_path: Path) -> None:
    target = tmp_path / "on_two_chips"
    source = (f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "--budget", "0", "--no-tests")
    code, said = command(*source, "--card", "n300", "-o", str(target))
    assert code == 0 and "each chip of n300 runs the model: it is brought up on n150" in said
    assert 'CARD = "n150"' in (target / "tt/common.py").read_text()


def test_a_model_that_cannot_be_exported_names_the_line() -> None:
    with pytest.raises(ExportFailed, match=r"small_nets.py:\d+: if x.sum\(\) > 0"):
        export_graph(small_nets.DependsOnValues(), [torch.randn(1, 3, 8, 8)])


def test_a_gate_that_says_little_is_reported(tmp_path: Path) -> None:
    target = tmp_path / "places"
    code, said = command(f"{SOURCE}:Places", "--input", "1x3x10x12", "--budget", "0", "--no-tests", "-o", str(target))
    assert code == 0 and "careful with output2" in said and "careful with output1" not in said
    assert "careful with output2" in (target / "README.md").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("small_nets", "--input", "1x3x32x32"), "it must be like net.py:Net"),
        (("no_such_file.py:Net", "--input", "1x3x32x32"), "there is no file"),
        ((f"{SOURCE}:Nothing", "--input", "1x3x32x32"), "has no Nothing"),
        ((f"{SOURCE}:not_a_model", "--input", "1x3x32x32"), "must give a torch.nn.Module"),
        ((f"{SOURCE}:SmallResNet", "--input", "3*32"), "it must be like 1x3x224x224"),
        ((f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "-o", "no-name"), "must be a Python name"),
        ((f"{SOURCE}:SmallResNet", "--input", "1x3x32x32", "--budget", "soon"), "it must be like 120s"),
        ((f"{SOURCE}:ReadsANumber", "--input", "1x3x8x8"), "a number is read from a tensor (aten.item.default)"),
        ((f"{SOURCE}:ReturnsANumber", "--input", "1x3x8x8"), "output 2 of 2 is the constant 3.0"),
        ((f"{SOURCE}:OfWords", "--input", "1x7"), "inputs are float32"),
        (("torch.nn:ReLU", "--input", "1x3x8x8"), "ReLU has no parameters"),
    ],
)
def test_mistakes_are_sentences(
    arguments: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = command(*arguments)
    assert code == 1 and said in output
    assert not list(tmp_path.iterdir())


def test_views_go_to_json(card: Any) -> None:
    """The optimiser compares configurations by their JSON forms."""
    view = LayerFactory(torch.nn.Identity(), card, 1, {}).view("seen", (1, 1, 4, 8))
    assert json.loads(json.dumps(view.configuration.to_dict()))["order"] == [0, 1, 2, 3]


def test_input_shapes() -> None:
    assert input_shape("1x3x224x224") == (1, 3, 224, 224)
    with pytest.raises(ValueError, match="--input"):
        input_shape("0x3")


def test_files_that_nobody_generated_are_left_alone(tmp_path: Path) -> None:
    folder = GeneratedFolder(tmp_path / "mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("mine")
    with pytest.raises(Edited, match=r"notes\.txt"):
        folder.check_untouched()
    folder.write({"a.py": b"1"})
    assert folder.edited({"a.py": b"2"}) == []
    (tmp_path / "mine/a.py").write_text("3")
    with pytest.raises(Edited, match=r"a\.py"):
        folder.write({"a.py": b"2", "b.py": b"4"})
    assert not (tmp_path / "mine/b.py").exists()
    assert (tmp_path / "mine/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("model", ["model.py:Net", "package/net.py:Net", "package.net:Net"])
def test_files_of_the_user_s_are_copied_with_what_they_import(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocks = "from torch import nn\n\n\nclass Block(nn.Conv2d):\n    pass\n"
    net = "from torch import nn\n\n\nclass Net(nn.Sequential):\n    def __init__(self):\n        super().__init__({})\n"
    (tmp_path / "my_blocks.py").write_text(blocks)
    (tmp_path / "model.py").write_text("from my_blocks import Block\n" + net.format("Block(3, 16, 3)"))
    (tmp_path / "package").mkdir()
    (tmp_path / "package/__init__.py").touch()
    (tmp_path / "package/blocks.py").write_text(blocks)
    head = "import package.blocks as b\nfrom .blocks import (\n    Block,\n)\n"
    (tmp_path / "package/net.py").write_text(head + net.format("Block(3, 16, 3), b.Block(16, 16, 3)"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    code, said = command(model, "--input", "1x3x32x32", "--budget", "0", "-o", "brought_up/net")
    for name in [each for each in sys.modules if each.split(".")[0] in ("package", "my_blocks")]:
        del sys.modules[name]
    assert code == 0, said
    assert "passed" in said
