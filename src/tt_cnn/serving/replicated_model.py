# SPDX-License-Identifier: Apache-2.0
"""A model in several copies on a cluster of Ray's, each with a card of its own.

Ray Serve places the copies, sends a request to one that has little to do, and starts dead ones again. What was on a
copy that died is asked again, of another.
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import torch

from tt_cnn.distributed.cluster import CARD
from tt_cnn.distributed.driver import Driver
from tt_cnn.distributed.extra import require
from tt_cnn.serving.figures import Figures
from tt_cnn.serving.replica import Answer, Failed, Refused, Replica, ReplicaSettings
from tt_cnn.serving.served import CannotUpdate, NotServed, Outputs, Signature, State

PURPOSE = "serving on several cards or machines"
TRIES = 6
PAUSE_SECONDS = 0.05
"""After the first try that failed; twice as long after each further one."""
MOST_THREADS = 256
LOOK_SECONDS = 0.2
HEALTH_SECONDS = 120.0
"""A copy that does not answer for so long is replaced: a model that compiles holds Python for a while."""


class FaultInReplica(RuntimeError):
    """What was raised in a copy, in words."""


class NotDeployed(RuntimeError):
    """The copies do not start, with the reason that one of them gave."""


class ReplicatedModel:
    """This end of it, in the process that serves."""

    def __init__(self, settings: ReplicaSettings, replicas: int, figures: Figures) -> None:
        self.name = settings.name
        self.state: State = "loading"
        self.reason = "it is being loaded"
        self.signature: Signature | None = None
        self._settings, self._replicas, self._figures = settings, replicas, figures
        self._handle: Any = None
        self._deployed = False
        self._images = 0
        self._counting = threading.Lock()
        self._updating = threading.Lock()
        self._loading = threading.Thread(target=self._load, name=f"load {self.name}", daemon=True)
        self._asking = ThreadPoolExecutor(min(settings.most_waiting, MOST_THREADS), f"ask {self.name}")

    def start(self) -> None:
        self._loading.start()

    def stop(self) -> None:
        self._become("stopped", "it was shut down")
        self._loading.join()
        self._asking.shutdown(wait=True)
        if self._deployed:
            require("ray.serve", PURPOSE).delete(self._application)

    def submit(self, images: torch.Tensor) -> Future[Outputs]:
        with self._counting:
            if self.state != "ready":
                raise NotServed(f"{self.name} is not ready: {self.reason}", 503)
            most = self._settings.most_waiting
            if self._images + len(images) > most and self._images:
                raise NotServed(f"{self._images} images wait for {self.name}; at most {most} may", 429)
            self._count(len(images))
            return self._asking.submit(self._ask, images)

    def update(self) -> None:
        """Copy after copy is replaced by one that loads the model again; the others answer meanwhile."""
        if not self._updating.acquire(blocking=False):
            raise CannotUpdate(f"{self.name} is being updated already")
        try:
            self._deploy()
        except NotDeployed as error:
            raise CannotUpdate(f"the new {self.name} does not start, and may have replaced copies: {error}") from error
        except Exception as error:  # of Ray, files or weights
            raise CannotUpdate(f"{self.name} is served as before: {type(error).__name__}: {error}") from error
        finally:
            self._updating.release()

    @property
    def _application(self) -> str:
        """Another server may have a model of this name on the same cluster."""
        return f"tt-cnn {self.name} {socket.gethostname()} {os.getpid()}"

    def _load(self) -> None:
        try:
            self._deploy()
            signature: Signature = self._handle.signature.remote().result()
        except NotDeployed as error:
            self._become("failed", str(error))
        except Exception as error:  # of Ray, files or weights
            self._become("failed", f"{type(error).__name__}: {error}")
        else:
            self.signature = signature
            self._become("ready", "")

    def _become(self, state: State, reason: str) -> None:
        """What has failed or was stopped stays so."""
        with self._counting:
            if self.state in ("loading", "ready"):
                self.state, self.reason = state, reason

    def _deploy(self) -> None:
        """With the model and its weights as they are now."""
        serve = require("ray.serve", PURPOSE)
        reference = self._settings.opening.reference()
        settings = replace(self._settings, reference=require("ray", PURPOSE).put(reference))
        deployment = serve.deployment(Replica).options(
            name=self.name,
            num_replicas=self._replicas,
            max_ongoing_requests=settings.most_waiting,
            health_check_timeout_s=HEALTH_SECONDS,
            ray_actor_options={"num_cpus": settings.threads, "resources": {CARD: 1}},
        )
        copies = deployment.bind(settings, Driver.here())
        self._deployed = True
        target = serve.RunTarget(copies, name=self._application, route_prefix=None)
        (self._handle,) = serve.run_many([target], wait_for_applications_running=False)
        while not self._runs(serve.status().applications[self._application]):
            time.sleep(LOOK_SECONDS)

    def _runs(self, status: Any) -> bool:
        """Whether all copies are there, by what Ray Serve says of them."""
        if self.state == "stopped":
            raise NotDeployed("it was shut down")
        if status.status in ("DEPLOY_FAILED", "UNHEALTHY"):
            words = [status.message, *(each.message for each in status.deployments.values())]
            raise NotDeployed(_cause("\n".join(words)))
        return bool(status.status == "RUNNING")

    def _ask(self, images: torch.Tensor) -> Outputs:
        try:
            return self._asked(lambda: self._handle.infer.remote(images.numpy()).result())
        finally:
            with self._counting:
                self._count(-len(images))
            self._figures.images.labels(self.name).inc(len(images))

    def _asked(self, ask: Callable[[], Answer]) -> Outputs:
        lost = require("ray.exceptions", PURPOSE).RayActorError
        why = ""
        for number in range(TRIES):
            if number:
                time.sleep(PAUSE_SECONDS * 2 ** (number - 1))
            try:
                answer = ask()
            except lost as error:
                why = str(error)
                continue
            if isinstance(answer, Failed):
                raise FaultInReplica(answer.words)
            if isinstance(answer, Refused):
                why = answer.words
                continue
            return tuple(torch.from_numpy(each.copy()) for each in answer)
        raise NotServed(f"no copy of {self.name} answered in {TRIES} tries: {why}", 503)

    def _count(self, images: int) -> None:
        self._images += images
        self._figures.waiting.labels(self.name).set(self._images)


def _cause(words: str) -> str:
    """The last error of a traceback in what Ray Serve says; all of it where there is none."""
    errors = [line for line in words.splitlines() if re.match(r"[A-Za-z_.]*(Error|Exception|Missing|Free)\b.*: ", line)]
    return errors[-1] if errors else words.strip()
