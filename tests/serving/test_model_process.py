# SPDX-License-Identifier: Apache-2.0
"""Several models, a process each: right answers, and what happens when one dies."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch

from tt_cnn.models.entry_names import entry_of
from tt_cnn.serving.model_process import FaultInModelProcess, ModelProcessDied, model_process
from tt_cnn.serving.opening import Opening

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = {"card": None, "executor": "plain", "precision": "tuned"}


@pytest.fixture
def in_examples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))


@contextmanager
def served(*arguments: str, models: int = 2) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command's address and process, once so many models are ready."""
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", *arguments, "--port", "0"]
    process = subprocess.Popen(command, cwd=EXAMPLES, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        said = ""
        while said.count("is ready") < models:
            line = process.stderr.readline()
            assert line, said
            said += line
        yield re.findall(r"(http://127\.0\.0\.1:\d+)/", said)[0], process
    finally:
        process.kill()
        process.wait()


def children(process: int) -> list[int]:
    """Those that models run in, started by any of its threads."""
    of_threads = [(task / "children").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
    found = " ".join(of_threads).split()
    return sorted(int(each) for each in found if b"spawn_main" in Path(f"/proc/{each}/cmdline").read_bytes())


def post(url: str, name: str, images: torch.Tensor) -> httpx.Response:
    (given,) = httpx.get(f"{url}/v2/models/{name}").json()["inputs"]
    tensor = {**given, "shape": list(images.shape), "data": images.flatten().tolist()}
    return httpx.post(f"{url}/v2/models/{name}/infer", json={"inputs": [tensor]}, timeout=60)


def test_two_models_answer_as_their_pipelines_do(in_examples: None) -> None:
    wanted = {}
    for model in ("senet:ENTRY", "hybrid:ENTRY"):
        entry = entry_of(model)
        images = entry.example_input(batch_size=3)
        with Opening(model, max(entry.batch_sizes), None, OPTIONS | {"executor": "trace+2cq"}).opened() as running:
            found = running.run(list(images.split(1)))
        wanted[entry.name] = images, [torch.cat(parts) for parts in zip(*found, strict=True)]
    with served("senet:ENTRY", "hybrid:ENTRY") as (url, process):
        for name, (images, outputs) in wanted.items():
            answer = post(url, name, images)
            assert answer.status_code == 200, answer.text
            for got, right in zip(answer.json()["outputs"], outputs, strict=True):
                assert torch.equal(torch.tensor(got["data"]).reshape(got["shape"]), right)
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=60)[1]
        assert process.returncode == 0 and "answered" in rest and "Traceback" not in rest


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_killed_model_is_opened_again_and_the_other_one_goes_on() -> None:
    with served("senet:ENTRY", "hybrid:ENTRY") as (url, process):
        images = {name: torch.zeros(1, *inputs(url, name)[1:]) for name in ("senet", "hybrid")}
        before = {name: post(url, name, image).json()["outputs"] for name, image in images.items()}
        first, second = children(process.pid)
        os.kill(first, signal.SIGKILL)
        statuses = {name: post(url, name, image).status_code for name, image in images.items()}
        assert sorted(statuses.values()) == [200, 500]
        while httpx.get(f"{url}/v2/health/ready").status_code != 200:
            pass
        assert second in children(process.pid) and first not in children(process.pid)
        assert {name: post(url, name, image).json()["outputs"] for name, image in images.items()} == before
        orphans = children(process.pid)
        process.kill()
        process.wait()
        for each in orphans:
            ended(each)


def inputs(url: str, name: str) -> list[int]:
    (given,) = httpx.get(f"{url}/v2/models/{name}").json()["inputs"]
    shape: list[int] = given["shape"]
    return shape


def ended(process: int) -> None:
    """It closes its card when the server is gone."""
    waiting = subprocess.run(["timeout", "30", "tail", "--pid", str(process), "-f", os.devnull], check=False)
    assert waiting.returncode == 0


def test_faults_have_words(in_examples: None) -> None:
    opening = Opening("senet:ENTRY", 1, None, OPTIONS)
    with model_process(opening, 0) as model:
        assert "TT_VISIBLE_DEVICES" not in os.environ
        with pytest.raises(FaultInModelProcess, match="Error: "):
            model.run([torch.zeros(1, 5, 64, 64)])
    with model_process(opening, 0) as model:
        os.kill(model.process_id, signal.SIGKILL)
        with pytest.raises(ModelProcessDied, match="exit code -9"):
            model.run([torch.zeros(1, 3, 64, 64)])
    with (
        pytest.raises(FaultInModelProcess, match="must be one of"),
        model_process(Opening("senet:ENTRY", 1, None, OPTIONS | {"executor": "fast"}), 0),
    ):
        raise AssertionError("it was opened")


def test_two_models_of_one_name_are_refused() -> None:
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", "senet:ENTRY", "senet:ENTRY"]
    done = subprocess.run(command, cwd=EXAMPLES, capture_output=True, text=True)
    assert done.returncode == 1 and "two models with the name senet" in done.stderr
