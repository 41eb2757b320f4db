# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn bench`: figures, the cut, files, mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tt_cnn.bench import PEERS, NotCapturable
from tt_cnn.cli import app


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", *arguments])


def test_a_model_is_timed_and_written_down(stripes: str, tmp_path: Path) -> None:
    folder = tmp_path / "bench"
    result = run(stripes, "--engine", "onnxruntime", "--rounds", "2", "--explain", "-o", str(folder))
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert "on onnxruntime" in result.stdout and "peak memory" in result.stdout
    (row,) = json.loads((folder / "bench.json").read_text())["rows"]
    assert len(row["seconds"]) == 2 and row["pcc"] > 0.9999 and row["same_bits"] and row["ratio"] == 1
    assert (folder / "bench.png").read_bytes().startswith(b"\x89PNG")
    again = run(stripes, "--rounds", "1", "-o", str(folder))
    assert again.exit_code == 1 and "name another folder" in str(again.exception)


def test_8_bits_are_told(stripes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tt_cnn.virtual.engines.replay.int8.replay.quicker", lambda *_: (1.0, 2.0))
    folder = tmp_path / "bench"
    options = ("--precision", "int8", "--engine", "openvino", "--rounds", "1", "--explain", "-o", str(folder))
    result = run(stripes, *options)
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert "layers in 8 bits, PCC 0.99" in result.stdout and "int8 trace+2cq openvino" in result.stdout
    told = json.loads((folder / "bench.json").read_text())
    assert "guard 0.99" in told["eight_bit"][0] and 0.99 <= told["rows"][0]["pcc"] < 0.999999


def test_fp8_without_a_gpu_is_told(stripes: str) -> None:
    result = run(stripes, "--precision", "fp8")
    assert result.exit_code == 1 and "precision='fp8' was asked for with engine='cpu'" in str(result.exception)


def test_all_executors_with_the_cards_rounding(stripes: str) -> None:
    result = run(stripes, "--executor", "all", "--numerics", "device", "--rounds", "1", "--explain")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert result.stdout.count("tt-cnn device") == 5
    assert "one by one in torch" in result.stdout


def test_an_unknown_executor_is_told() -> None:
    result = run("resnet50", "--executor", "warp")
    assert result.exit_code == 1 and "trace+2cq+io" in str(result.exception)


def test_a_peer_that_cannot_run_the_model_is_left_out(stripes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, *_: object) -> None:
        raise NotCapturable(f"no graph for {name}")

    monkeypatch.setattr("tt_cnn.bench.peers_beside", lambda engine: ["cuda-graph"])
    monkeypatch.setattr("tt_cnn.bench.create_peer", refuse)
    result = run(stripes, "--engine", "torch", "--peers", "--rounds", "1")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert "without cuda-graph: no graph for cuda-graph" in result.output


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Packages as if they were not installed: to import them and to look for them fails."""

    def hide(*packages: str) -> None:
        for name in [one for one in sys.modules if one.partition(".")[0] in packages]:
            monkeypatch.delitem(sys.modules, name)
        for name in packages:
            monkeypatch.setitem(sys.modules, name, None)

    return hide


def test_peers_without_their_packages_are_said_first_and_the_others_measured(
    stripes: str, without: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tt_cnn.bench.peers_beside", lambda engine: ["torch", "onnxruntime", "openvino"])
    without("onnxruntime", "openvino")
    result = run(stripes, "--engine", "kernels", "--peers", "--rounds", "1", "-o", str(tmp_path / "bench"))
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert result.stderr.splitlines()[:2] == [
        "without onnxruntime: onnxruntime is not installed; pip install 'tt-cnn[cpu]'",
        "without openvino: openvino is not installed; pip install 'tt-cnn[cpu]'",
    ]
    rows = json.loads((tmp_path / "bench" / "bench.json").read_text())["rows"]
    assert [row["name"] for row in rows][1:] == ["torch eager"]


def test_a_peer_that_breaks_costs_no_results(stripes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ImportError("libgomp.so.1: cannot open shared object file\nand more")

    monkeypatch.setattr("tt_cnn.bench.peers_beside", lambda engine: ["compile"])
    monkeypatch.setitem(PEERS, "compile", broken)
    result = run(stripes, "--engine", "torch", "--peers", "--rounds", "1")
    assert result.exit_code == 0, result.output + repr(result.exception)
    assert "without compile: libgomp.so.1: cannot open shared object file\n" in result.stderr
    assert "tt-cnn native" in result.stdout


@pytest.mark.parametrize("inside", [True, False])
def test_a_folder_that_cannot_be_written_is_said_before_anything_is_measured(
    inside: bool, stripes: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tt_cnn.bench.compare", lambda *_, **__: pytest.fail("it was measured"))
    file = tmp_path / "file"
    file.write_text("mine")
    result = run(stripes, "-o", str(file / "bench" if inside else file))
    assert result.exit_code == 1 and isinstance(result.exception, ValueError)
    assert "nothing can be written there" in str(result.exception) and file.read_text() == "mine"
