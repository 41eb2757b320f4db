# SPDX-License-Identifier: Apache-2.0
"""Which host engine runs a graph quickest on this machine: measured once, remembered on disk."""

from __future__ import annotations

import hashlib
import logging
import math
import os
import platform
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tt_cnn import cache_folder
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host, serialized
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed
from tt_cnn.virtual.kernel_library import fingerprint

log = logging.getLogger("tt_cnn.virtual")

ROUNDS = 3
"""The best of so many measurements counts."""
LOST = 1.3
"""An engine that takes so many times the time of the best is not measured again."""
HOPELESS, LONG = 2.0, 0.1
"""One that does so in its first run, where that takes so many seconds, is not even run twice."""


def quickest(
    outputs: Sequence[Node], inputs: Sequence[torch.Tensor], threads: int, names: tuple[str, ...]
) -> tuple[str, Host]:
    """A compiled model on the engine that was quickest for this graph, now or when it was measured before."""
    if len(names) == 1:
        return names[0], HOSTS[names[0]](outputs, threads)
    key = key_of(outputs, threads)
    known = remembered().get(key)
    if known in names:
        host = HOSTS[known](outputs, threads)
        serialized.cache_clear()
        return known, host
    best = names[0]
    host = HOSTS[best](outputs, threads)
    least = _seconds(host, inputs)
    for name in names[1:]:
        other = HOSTS[name](outputs, threads)
        seconds = _seconds(other, inputs, HOPELESS * least)
        for _ in range(ROUNDS - 1):  # they take turns, since other programs may hold up one of them for a while
            if seconds > LOST * least:
                break
            least, seconds = min(least, _seconds(host, inputs)), min(seconds, _seconds(other, inputs))
        log.info("replay on %s %.1f ms, on %s %.1f ms", best, least * 1e3, name, seconds * 1e3)
        if seconds < least:
            best, host, least = name, other, seconds
    serialized.cache_clear()
    remember(key, best)
    return best, host


def quicker(one: Host, other: Host, inputs: Sequence[torch.Tensor]) -> tuple[float, float]:
    """The seconds of two, in turn, so that a busy machine is busy for both."""
    rounds = [(_seconds(one, inputs), _seconds(other, inputs)) for _ in range(ROUNDS)]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def _seconds(host: Host, inputs: Sequence[torch.Tensor], limit: float = math.inf) -> float:
    """Of one run, after one to warm up, which is enough where it is long and beyond the limit."""
    times: list[float] = []
    while len(times) < 2 and (not times or times[0] < max(limit, LONG)):
        start = time.perf_counter()
        host(inputs)
        times.append(time.perf_counter() - start)
    return times[-1]


def key_of(outputs: Sequence[Node], threads: int) -> str:
    """The graph's structure (not its weights), the machine, and the engines' versions: ours is that of its sources."""
    digest = hashlib.sha256()
    numbers: dict[int, int] = {}
    for node in ordered(outputs):
        numbers[id(node)] = len(numbers)
        described = (node.kind, [numbers[id(one)] for one in node.inputs], node.params, node.shape)
        digest.update(repr(described).encode())
    digest.update(repr((threads, platform.processor(), platform.machine(), os.cpu_count())).encode())
    digest.update(repr([(name, version(name)) for name in installed() if name in PACKAGES]).encode())
    digest.update(fingerprint().encode())
    return digest.hexdigest()[:32]


def _file() -> Path:
    return cache_folder.folder() / "replay.json"


def remembered() -> dict[str, Any]:
    return cache_folder.read_json(_file())


def remember(key: str, value: Any) -> None:
    cache_folder.update_json(_file(), {key: value})
