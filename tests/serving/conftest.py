# SPDX-License-Identifier: Apache-2.0
"""A small model behind a server on a free port of loopback, as `tt-cnn serve` runs it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import uvicorn

from tests.optimizer.small_model import ENTRY, NAME, SIZE, OnCard, small_reference
from tt_cnn import ttnn
from tt_cnn.models.registry import ModelEntry, registered
from tt_cnn.models.running import running_model
from tt_cnn.serving.application import Limits, application
from tt_cnn.serving.figures import Figures
from tt_cnn.serving.served_model import Opens, ServedModel

BODY_BYTES = 2**20
BODY_SECONDS = 1.0
INFER = f"/v2/models/{NAME}/infer"
MANY = 24
Right = dict[tuple[int, int], dict[str, torch.Tensor]]


def images(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(seed))


def request(given: torch.Tensor) -> dict[str, Any]:
    tensor = {"name": "images", "datatype": "FP32", "shape": list(given.shape), "data": given.flatten().tolist()}
    return {"inputs": [tensor]}


@dataclass
class Served:
    """What a test asks and looks into."""

    address: str
    model: ServedModel
    server: uvicorn.Server
    thread: threading.Thread

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def stop(self) -> None:
        self.server.should_exit = True
        self.thread.join(timeout=60)


class InPipelines(OnCard):
    """Its input waits in DRAM, as rows."""

    dram_input_memory_config = ttnn.DRAM_MEMORY_CONFIG
    dram_output_memory_config = None


@pytest.fixture(scope="module")
def small() -> Iterator[tuple[ModelEntry, Any]]:
    with registered(replace(ENTRY, tt=InPipelines)) as entry:
        yield entry, small_reference()


@pytest.fixture(scope="module")
def right(small: tuple[ModelEntry, Any]) -> Right:
    """What the pipeline gives without a server, by the number of images and their seed."""
    found, reference = small
    with running_model(found, reference, executor="plain", batch_size=2) as running:

        def outputs(count: int, seed: int) -> dict[str, torch.Tensor]:
            parts = running.run(list(images(count, seed).split(1)))
            return dict(zip(running.model.outputs, map(torch.cat, zip(*parts, strict=True)), strict=True))

        wanted = [(1, seed) for seed in range(MANY)] + [(2, 2), (3, 3), (5, 5), (2, 9)]
        return {(count, seed): outputs(count, seed) for count, seed in wanted}


@contextmanager
def serving(
    small: tuple[ModelEntry, Any],
    wrap: Callable[[Opens], Opens] = lambda opened: opened,
    most_waiting: int = 8,
    ready: bool = True,
) -> Iterator[Served]:
    """`wrap` may stand between the server and the model."""
    found, reference = small
    figures = Figures()
    opened = wrap(lambda: running_model(found, reference, executor="plain", batch_size=2))
    model = ServedModel(NAME, opened, found.example_input(batch_size=1), figures, most_waiting)
    app = application({NAME: model}, figures, Limits(BODY_BYTES, BODY_SECONDS))
    config = uvicorn.Config(app, port=0, log_level="warning", http="h11", h11_max_incomplete_event_size=16384)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        pause = threading.Event()
        while thread.is_alive() and not (server.started and (model.state in ("ready", "failed") or not ready)):
            pause.wait(0.01)
        assert model.state == "ready" or not ready, model.reason
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Served(f"127.0.0.1:{port}", model, server, thread)
    finally:
        server.should_exit = True
        thread.join(timeout=60)


@pytest.fixture(scope="module")
def served(small: tuple[ModelEntry, Any], right: Right) -> Iterator[Served]:
    """Opened behind `right`: a process has the card once."""
    with serving(small) as found:
        yield found
