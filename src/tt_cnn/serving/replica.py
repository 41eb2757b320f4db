# SPDX-License-Identifier: Apache-2.0
"""One of several copies of a served model, in an actor of Ray Serve that has a card of its own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tt_cnn.distributed.cards import take_a_card
from tt_cnn.distributed.driver import Driver
from tt_cnn.serving.opening import Opening
from tt_cnn.serving.served import NotServed, Signature

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ReplicaSettings:
    name: str
    opening: Opening
    most_waiting: int
    """Images that may wait for all copies together: the server counts them."""
    wait_seconds: float
    """For a batch that is not full."""
    threads: int
    reference: Any = None
    """Ray's reference to the PyTorch model as the server read it: a copy that is started later has the same weights,
    whatever became of the file."""


@dataclass(frozen=True)
class Refused:
    """This copy cannot take the images now; another one may."""

    words: str


@dataclass(frozen=True)
class Failed:
    """The model or the card raised."""

    words: str


Answer = tuple[Array, ...] | Refused | Failed


class Replica:
    """Made in a process of Ray's; it can be used once it is made."""

    def __init__(self, settings: ReplicaSettings, driver: Driver) -> None:
        driver.follow()
        take_a_card()
        import ray
        import torch

        torch.set_num_threads(settings.threads)
        from tt_cnn.serving.figures import Figures
        from tt_cnn.serving.served_model import ServedModel

        entry = settings.opening.entry()
        self._model = ServedModel(
            settings.name,
            partial(settings.opening.opened, ray.get(settings.reference)),
            entry.example_input(batch_size=1),
            Figures(),
            settings.most_waiting,
            settings.wait_seconds,
        )
        self._model.start()
        self._model.wait_until_loaded()
        self.check_health()

    def check_health(self) -> None:
        """Ray Serve replaces a copy for which this raises."""
        if self._model.state in ("failed", "stopped"):
            raise RuntimeError(f"{self._model.name} cannot be served: {self._model.reason}")

    async def signature(self) -> Signature:
        assert self._model.signature is not None
        return self._model.signature

    async def infer(self, images: Array) -> Answer:
        import torch

        try:
            outputs = await asyncio.wrap_future(self._model.submit(torch.from_numpy(images.copy())))
        except NotServed as error:
            return Refused(str(error))
        except Exception as error:  # of the card or the model
            return Failed(f"{type(error).__name__}: {error}")
        return tuple(each.numpy() for each in outputs)

    def __del__(self) -> None:
        """Ray Serve's end of a copy that has answered everything."""
        if hasattr(self, "_model"):
            self._model.stop()
