# SPDX-License-Identifier: Apache-2.0
"""OpenVINO and ONNX Runtime report to nobody: a replay on them writes nothing to the home folder, looks up no name."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tt_cnn
from tests.virtual.engines import watched

REPLAY = """
import time
import torch
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.hosts import HOSTS

x = torch.randn(1, 4, 8, 8)
nodes = graph_of(lambda x: [torch.relu(x * 2)], [x])
for name in ("onnxruntime", "openvino"):
    host = HOSTS[name](nodes, 1)
    assert torch.equal(host([x])[0], torch.relu(x * 2))
time.sleep(3)  # they report from threads
"""
PEERS = """
import time
import torch
from tt_cnn.bench.peers import create_peer

for name in ("onnxruntime", "openvino"):
    create_peer(name, torch.nn.ReLU(), torch.randn(1, 4, 8, 8))
time.sleep(3)
"""
WITHOUT_US = """
import time
import onnxruntime, openvino, onnx
from onnx import TensorProto, helper

value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", value[:1], value[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
time.sleep(3)
"""


def environment(home: Path) -> dict[str, str]:
    """Little: on a CI server the two keep quiet by themselves, and a proxy would look names up for them."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}
    return kept | {"HOME": str(home), "TT_CNN_CACHE": str(home.parent / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}


def written(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir()
    return path


@pytest.mark.parametrize("program", [REPLAY, PEERS], ids=["replay", "peers"])
def test_nothing_is_written_and_no_name_looked_up(home: Path, program: str) -> None:
    command = [sys.executable, watched.__file__, program]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=300)
    if done.returncode == watched.NOT_POSSIBLE:
        command = [sys.executable, "-c", program]
        subprocess.run(command, env=environment(home), check=True, capture_output=True, timeout=300)
        assert written(home) == []
        pytest.skip(f"nothing was written; which names are looked up cannot be seen here: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [watched.PROBE]
    assert written(home) == []


def test_they_would_write_if_nobody_stopped_them(home: Path) -> None:
    """Shows that the test above sees what it looks for, in the versions that are tested."""
    command = [sys.executable, watched.__file__, WITHOUT_US]
    done = subprocess.run(command, env=environment(home), capture_output=True, text=True, timeout=300)
    if done.returncode == watched.NOT_POSSIBLE:
        pytest.skip(f"they would reach their makers: {done.stdout.strip()}")
    assert done.returncode == 0, done.stderr[-2000:]
    assert any(path.startswith("intel") for path in written(home))
    assert any("onnxruntime" in path for path in written(home))
    assert len(done.stdout.split()) > 1


def test_whoever_has_decided_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from tt_cnn.virtual.engines.replay import packages

    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    packages.import_onnxruntime()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_the_telemetry_package_is_only_hidden_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    from tt_cnn.virtual.engines.replay import packages

    monkeypatch.setitem(sys.modules, packages.TELEMETRY, os)
    with packages._hidden(packages.TELEMETRY), pytest.raises(ImportError):
        __import__(packages.TELEMETRY)
    assert sys.modules[packages.TELEMETRY] is os


def test_there_is_no_other_way_to_import_them() -> None:
    package = Path(tt_cnn.__file__).parent
    way = re.compile(r"^\s*(import|from) (openvino|onnxruntime)\b", re.MULTILINE)
    assert [path for path in package.rglob("*.py") if way.search(path.read_text())] == []
