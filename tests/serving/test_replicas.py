# SPDX-License-Identifier: Apache-2.0
"""A model in two copies by Ray Serve: a killed copy and a new model lose no request."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import torch
from safetensors.torch import save_file

from tests.serving.test_model_process import OPTIONS, in_examples, inputs, post, served
from tt_cnn.models.entry_names import entry_of
from tt_cnn.serving.opening import Opening

__all__ = ["in_examples"]
CLIENTS = 3
FURTHER = 20
"""Answers that are waited for after something was done to the server."""


class Clients:
    """Ask all the time, each for the same image."""

    def __init__(self, url: str, image: torch.Tensor) -> None:
        self.url, self.image = url, image
        self.answers: list[httpx.Response] = []
        self._came, self._end = threading.Condition(), threading.Event()

    def ask(self) -> None:
        while not self._end.is_set():
            answer = post(self.url, "senet", self.image)
            with self._came:
                self.answers.append(answer)
                self._came.notify_all()

    def wait_for_more(self) -> None:
        with self._came:
            wanted = len(self.answers) + FURTHER
            assert self._came.wait_for(lambda: len(self.answers) >= wanted, 120), self.answers

    @contextmanager
    def asking(self) -> Iterator[None]:
        threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for each in threads:
            each.start()
        try:
            self.wait_for_more()
            yield
        finally:
            self._end.set()
            for each in threads:
                each.join()


def copies() -> list[int]:
    """Processes of Ray Serve's that have the model."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            title = (each / "cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::ServeReplica:") and b"senet" in title:
            found.append(int(each.name))
    return found


def outputs_with(weights: Path, image: torch.Tensor) -> list[torch.Tensor]:
    entry = entry_of("senet:ENTRY")
    with Opening("senet:ENTRY", max(entry.batch_sizes), str(weights), OPTIONS).opened() as running:
        return list(running.run([image])[0])


def is_answer(response: httpx.Response, outputs: list[torch.Tensor]) -> bool:
    assert response.status_code == 200, response.text
    found = [torch.tensor(each["data"]).reshape(each["shape"]) for each in response.json()["outputs"]]
    return all(torch.equal(a, b) for a, b in zip(found, outputs, strict=True))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
def test_a_killed_copy_and_a_new_model_lose_no_request(in_examples: None, tmp_path: Path) -> None:
    weights, entry = tmp_path / "weights.safetensors", entry_of("senet:ENTRY")
    image = entry.example_input(batch_size=1)
    wanted = []
    files = []
    for factor in (1.0, 0.9):
        state = Opening("senet:ENTRY", 1, None, OPTIONS).reference().state_dict()
        save_file(
            {name: value * factor if value.is_floating_point() else value for name, value in state.items()}, weights
        )
        files.append(weights.read_bytes())
        wanted.append(outputs_with(weights, image))
    first, second = files
    weights.write_bytes(first)
    arguments = ["senet:ENTRY", "--weights", str(weights), "--executor", "plain", "--ray", "local", "--replicas", "2"]
    with served(*arguments, models=1) as (url, process):
        assert inputs(url, "senet")[1:] == list(image.shape[1:])
        clients = Clients(url, image)
        with clients.asking():
            one, other = copies()
            os.kill(one, signal.SIGKILL)
            clients.wait_for_more()
            while len(running := copies()) < 2 or one in running:
                clients.wait_for_more()
            assert other in running

            load = f"{url}/v2/repository/models/senet/load"
            weights.write_bytes(first[:1000])
            refused = httpx.post(load, timeout=120)
            assert refused.status_code == 409 and "served as before" in refused.json()["error"]
            clients.wait_for_more()
            assert set(copies()) == set(running)
            assert all(is_answer(each, wanted[0]) for each in clients.answers)

            weights.write_bytes(second)
            assert httpx.post(load, timeout=300).status_code == 200
            assert not set(copies()) & set(running)
            done = len(clients.answers)
            clients.wait_for_more()
        kinds = [is_answer(each, wanted[0]) or 2 * is_answer(each, wanted[1]) for each in clients.answers]
        assert all(kinds), "an answer is of neither model"
        assert set(kinds[done + CLIENTS :]) == {2}, "the old model answered after the new one was loaded"
        process.send_signal(signal.SIGTERM)
        rest = process.communicate(timeout=120)[1]
        assert process.returncode == 0 and "answered" in rest and "Traceback" not in rest
    assert not copies()


def test_a_model_with_one_card_says_why_it_cannot_be_loaded_again() -> None:
    with served("senet:ENTRY", models=1) as (url, _):
        refused = httpx.post(f"{url}/v2/repository/models/senet/load")
        assert refused.status_code == 409 and "--replicas" in refused.json()["error"]
        assert httpx.post(f"{url}/v2/repository/models/nothing/load").status_code == 404


def test_a_model_that_does_not_load_says_why(in_examples: None) -> None:
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", "senet:ENTRY", "--ray", "local", "--replicas", "1"]
    done = subprocess.run([*command, "--executor", "fast", "--port", "0"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "senet cannot be served: " in done.stderr and "executor is 'fast'; it must be one of" in done.stderr
    done = subprocess.run([*command, "--replicas", "99"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "--replicas is 99, which is 99 cards" in done.stderr
    done = subprocess.run([*command[:5], "--replicas", "2"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2 and "--replicas belongs to --ray" in done.stderr
