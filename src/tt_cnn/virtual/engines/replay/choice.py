"""Which host engine runs a graph quickest on this machine: measured once, remembered on disk."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import platform
import tempfile
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host
from tt_cnn.virtual.engines.replay.installed import PACKAGES, installed

log = logging.getLogger("tt_cnn.virtual")

ROUNDS = 5
"""The best of so many runs counts, after one to warm up."""
FAR = 2.0


def quickest(
    outputs: Sequence[Node], inputs: Sequence[torch.Tensor], threads: int, names: tuple[str, ...]
) -> tuple[str, Host]:
    """A compiled model on the engine that was quickest for this graph, now or when it was measured before."""
    if len(names) == 1:
        return names[0], HOSTS[names[0]](outputs, threads)
    key = key_of(outputs, threads)
    known = remembered().get(key)
    if known in names:
        return known, HOSTS[known](outputs, threads)
    hosts = {name: HOSTS[name](outputs, threads) for name in names}
    seconds: dict[str, float] = {}
    for name, host in hosts.items():
        seconds[name] = _seconds(host, inputs, min(seconds.values(), default=math.inf))
    best = min(seconds, key=seconds.__getitem__)
    log.info("replay on %s: %s", best, ", ".join(f"{n} {s * 1e3:.1f} ms" for n, s in seconds.items()))
    remember(key, best)
    return best, hosts[best]


def quicker(one: Host, other: Host, inputs: Sequence[torch.Tensor]) -> tuple[float, float]:
    """The seconds of two, in turns, so that a busy machine is busy for both."""
    rounds = [(_once(one, inputs), _once(other, inputs)) for _ in range(1 + ROUNDS)][1:]
    return min(a for a, _ in rounds), min(b for _, b in rounds)


def _once(host: Host, inputs: Sequence[torch.Tensor]) -> float:
    start = time.perf_counter()
    host(inputs)
    return time.perf_counter() - start


def _seconds(host: Host, inputs: Sequence[torch.Tensor], best: float) -> float:
    """One that is far from the best so far is not asked again."""
    host(inputs)
    seconds = _once(host, inputs)
    return seconds if seconds > FAR * best else min(seconds, *(_once(host, inputs) for _ in range(ROUNDS - 1)))


def key_of(outputs: Sequence[Node], threads: int) -> str:
    """The graph's structure (not its weights), the machine and the engines' versions."""
    digest = hashlib.sha256()
    numbers: dict[int, int] = {}
    for node in ordered(outputs):
        numbers[id(node)] = len(numbers)
        told = (node.kind, [numbers[id(one)] for one in node.inputs], node.params, node.shape)
        digest.update(repr(told).encode())
    digest.update(repr((threads, platform.processor(), platform.machine(), os.cpu_count())).encode())
    digest.update(repr([(name, version(name)) for name in installed() if name in PACKAGES]).encode())
    return digest.hexdigest()[:32]


def _file() -> Path:
    root = os.environ.get("TT_CNN_CACHE") or Path.home() / ".cache" / "tt-cnn"
    return Path(root) / "replay.json"


def remembered() -> dict[str, Any]:
    try:
        known = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def remember(key: str, value: Any) -> None:
    """Written beside and renamed, so that two processes do not spoil it; where nothing can be written, never mind."""
    path = _file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
            json.dump(remembered() | {key: value}, file)
        Path(file.name).replace(path)
    except OSError as error:
        log.info("the choice of engine is not kept: %s", error)
