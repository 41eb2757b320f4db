# SPDX-License-Identifier: Apache-2.0
"""A cluster of Ray's: one that is there, or one that is started on this machine and ends with its context."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tt_cnn.distributed.cards import cards_here
from tt_cnn.distributed.extra import require

CARD = "tt_card"
"""The resource that nodes declare, one for each card, so that actors land where cards are."""
LOCAL = "local"
STORE_BYTES = 512 * 2**20
"""Objects that a local Ray keeps in shared memory: rows and predictions are small."""
ANSWER_SECONDS = 5.0
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # errors come as exceptions
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
}
"""Nothing is sent to Ray's makers, and nothing printed that says nothing."""


class ClusterUnusable(RuntimeError):
    """There is no cluster at the address, or none with what actors need."""


@dataclass(frozen=True)
class Cluster:
    address: str
    cards: int
    cores: int
    nodes: int

    def actors(self, wanted: int | None, threads: int = 1) -> int:
        """How many actors there are to be: as many as there are cards and cores for, where nothing is wanted."""
        most = _most(self.cards, self.cores, threads)
        if most < 1:
            raise ClusterUnusable(
                f"the cluster at {self.address} has {self.cores} cores, and an actor is to have {threads}; "
                "ask for fewer with --threads"
            )
        if wanted is not None and not 1 <= wanted <= most:
            raise ClusterUnusable(
                f"--actors is {wanted}; the cluster at {self.address} has cards and cores for {most} "
                f"({self.cards} {CARD}, {self.cores} cores, {threads} for each actor)"
            )
        return wanted or most


def _most(cards: int, cores: int, threads: int) -> int:
    return min(cards, cores // threads)


@contextmanager
def connected(address: str | None = None, *, cards: int | None = None, cores: int | None = None) -> Iterator[Cluster]:
    """Ray in use for a while. Without an address that is RAY_ADDRESS's cluster, or one that is started here.

    One that is started here has `cores` (all by default) and `cards`: the real ones, or a virtual one for each core.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in _QUIET.items()})
    ray = require("ray", "running on several cards or machines")
    if ray.is_initialized():
        raise ClusterUnusable("this process is connected to a cluster of Ray's already; ray.shutdown() ends that")
    where = address or os.environ.get("RAY_ADDRESS") or LOCAL
    quiet = {"logging_level": logging.ERROR, "log_to_driver": False}
    on_terminate = signal.getsignal(signal.SIGTERM)
    variables = {name: value for name, value in os.environ.items() if name.startswith("TT_CNN_")}
    try:
        if where == LOCAL:
            cores = cores or len(os.sched_getaffinity(0))
            cards = cards or len(cards_here()) or cores
            ray.init(
                address=LOCAL,
                num_cpus=cores,
                resources={CARD: cards},
                object_store_memory=STORE_BYTES,
                include_dashboard=False,
                runtime_env={"env_vars": variables},
                **quiet,
            )
        else:
            _check_that_it_answers(where)
            try:
                ray.init(address=where, runtime_env={"env_vars": variables}, **quiet)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise ClusterUnusable(f"there is no cluster of Ray's at {where}: {error}") from error
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, on_terminate)  # Ray's own raises SystemExit wherever Python is just then
        yield _found(ray, where)
    finally:
        ray.shutdown()


def _check_that_it_answers(where: str) -> None:
    """Ray itself tries for minutes, and then ends the process."""
    host, _, port = where.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not port.isdecimal():
        return  # `auto`, and other addresses that Ray resolves
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS).close()
    except OSError as error:
        raise ClusterUnusable(f"there is no cluster of Ray's at {where}: {error}") from error


def _found(ray: object, where: str) -> Cluster:
    resources = ray.cluster_resources()  # type: ignore[attr-defined]
    nodes = sum(node["Alive"] for node in ray.nodes())  # type: ignore[attr-defined]
    cards = int(resources.get(CARD, 0))
    if not cards:
        raise ClusterUnusable(
            f"no node of the cluster at {where} declares a card; start those that have some, real or virtual, with "
            f"ray start --resources='{{\"{CARD}\": 1}}'"
        )
    return Cluster(where, cards, int(resources.get("CPU", 0)), nodes)
