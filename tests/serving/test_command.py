# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn serve` as a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from tt_cnn.cli.application import app

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_it_serves_until_it_is_asked_to_end() -> None:
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", "senet:ENTRY", "--port", "0"]
    process = subprocess.Popen(command, cwd=EXAMPLES, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        while "is ready" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        (url,) = re.findall(r"(http://127\.0\.0\.1:\d+)/v2/models/senet is ready", said)
        (given,) = httpx.get(f"{url}/v2/models/senet").json()["inputs"]
        tensor = {**given, "shape": [1, *given["shape"][1:]], "data": [0.5] * (3 * 64 * 64)}
        answer = httpx.post(f"{url}/v2/models/senet/infer", json={"inputs": [tensor]}, timeout=60)
        assert answer.status_code == 200 and len(answer.json()["outputs"]) == 1
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
        assert "answered" in rest and "Traceback" not in rest
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["resnet60"], "there is no model 'resnet60'"),
        (["resnet50", "--batch", "3"], "--batch is 3; ResNet50 is tuned for"),
        (["resnet50", "--precision", "int4"], "--precision is 'int4'"),
    ],
)
def test_mistakes_are_sentences(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["serve", *arguments])
    assert result.exit_code and said in str(result.exception)


def test_a_missing_extra_is_named(tmp_path: Path) -> None:
    (tmp_path / "starlette.py").write_text("raise ImportError('hidden')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", "resnet50"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 1 and "pip install 'tt-cnn[serve]'" in done.stderr
