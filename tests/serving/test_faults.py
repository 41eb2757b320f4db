# SPDX-License-Identifier: Apache-2.0
"""Too much, the end, and faults: nothing that was taken stays without an answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

import httpx
import torch

from tests.optimizer.small_model import NAME
from tests.serving.conftest import INFER, images, request, serving
from tt_cnn.models.registry import ModelEntry
from tt_cnn.serving.served_model import Opens, Runs


class Gate:
    """Holds runs until it is opened, and breaks those it is told to."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.faults = 0
        self.opened = 0

    def wrap(self, opened: Opens) -> Opens:
        @contextmanager
        def held() -> Iterator[Runs]:
            with opened() as running:
                self.opened += 1
                warm = [False]

                def run(given: list[torch.Tensor]) -> Any:
                    if warm[0]:
                        self.open.wait(30)
                        if self.faults:
                            self.faults -= 1
                            raise RuntimeError("the card is on fire")
                    warm[0] = True
                    return running.run(given)

                yield SimpleNamespace(output_names=running.output_names, images_per_run=running.images_per_run, run=run)

        def opener() -> AbstractContextManager[Runs]:
            return held()

        return opener


def test_what_is_too_much_gets_429_and_what_was_taken_is_answered(small: tuple[ModelEntry, Any]) -> None:
    gate = Gate()
    with serving(small, gate.wrap, most_waiting=4) as served, ThreadPoolExecutor(12) as pool:
        sent = [pool.submit(httpx.post, served.url + INFER, json=request(images(1)), timeout=60) for _ in range(12)]
        while sum(each.done() for each in sent) < 6:  # two run, four wait
            time.sleep(0.01)
        assert httpx.get(served.url + "/v2/health/live").status_code == 200
        gate.open.set()
        statuses = sorted(each.result().status_code for each in sent)
        assert statuses.count(429) >= 6 and set(statuses) == {200, 429}
        refused = next(each.result() for each in sent if each.result().status_code == 429)
        assert "images wait for" in refused.json()["error"] and refused.headers["retry-after"] == "1"


def test_shutting_down_answers_what_waits(small: tuple[ModelEntry, Any]) -> None:
    gate = Gate()
    with serving(small, gate.wrap) as served, ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(httpx.post, served.url + INFER, json=request(images(1)), timeout=60) for _ in range(6)]
        while served.model._images < 4:
            time.sleep(0.01)
        served.server.should_exit = True
        time.sleep(0.3)
        gate.open.set()
        assert [each.result().status_code for each in sent] == [200] * 6
        served.thread.join(60)
        assert not served.thread.is_alive() and served.model.state == "stopped"


def test_a_fault_fails_its_own_requests_alone(small: tuple[ModelEntry, Any]) -> None:
    gate = Gate()
    gate.open.set()
    with serving(small, gate.wrap) as served:
        gate.faults = 1
        answer = httpx.post(served.url + INFER, json=request(images(1)), timeout=60)
        assert answer.status_code == 500 and "the card is on fire" in answer.json()["error"]
        while httpx.get(served.url + "/v2/health/ready").status_code != 200:
            time.sleep(0.05)
        assert gate.opened == 2
        assert httpx.post(served.url + INFER, json=request(images(1)), timeout=60).status_code == 200


def test_a_model_that_cannot_be_opened_is_said(small: tuple[ModelEntry, Any]) -> None:
    def broken(opened: Opens) -> Opens:
        def opener() -> AbstractContextManager[Runs]:
            raise RuntimeError("no card")

        return opener

    with serving(small, broken, ready=False) as served:
        while served.model.state != "failed":
            time.sleep(0.01)
        answer = httpx.post(served.url + INFER, json=request(images(1)))
        assert answer.status_code == 503 and "no card" in answer.json()["error"]
        assert httpx.get(served.url + "/v2/health/ready").json()["waiting_for"] == {NAME: "RuntimeError: no card"}
