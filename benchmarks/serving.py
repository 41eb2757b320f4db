# SPDX-License-Identifier: Apache-2.0
"""Does `tt-cnn serve` hold under more than it can do?

    python benchmarks/serving.py [MODEL] [--seconds 600] [--clients 96] [--check]

A server in a process of its own, on loopback. First a few clients ask as fast as they are answered: what the server can
do. Then requests come at twice that rate for a while: how many are answered, how many are refused (429 or 503),
latencies of those that were answered, the server's memory, and whether every answer is the one that the
same image had at first. With `--check` it exits 1 where a request gets another status, an answer differs, or memory
grows by more than a tenth once a tenth of the time is over.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import re
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

ROOT = Path(__file__).resolve().parents[1]
IMAGES = 8
CAPACITY_SECONDS = 8.0
FEW = 8
MOST_GROWTH = 1.1
EXPECTED = {200, 429, 503}


def started(model: str) -> tuple[subprocess.Popen[str], str]:
    """The server's process, and its address once it is ready."""
    command = [sys.executable, "-m", "tt_cnn.cli", "serve", model, "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT / "examples", stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.search(r"(http://[\d.:]+/v2/models/\S+) is ready", line):
            return process, found[1]
    raise SystemExit(f"{model} was not served")


def bodies(url: str) -> list[bytes]:
    """A request for each of some images."""
    (given,) = httpx.get(url).json()["inputs"]
    shape = [1, *given["shape"][1:]]
    count = 1
    for size in shape:
        count *= size
    made = []
    for seed in range(IMAGES):
        draw = random.Random(seed)
        tensor = {**given, "shape": shape, "data": [round(draw.gauss(0, 1), 3) for _ in range(count)]}
        made.append(json.dumps({"inputs": [tensor]}).encode())
    return made


def memory_kb(pid: int) -> int:
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("VmRSS")]
    return int(line.split()[1])


def most_per_second(url: str, requests: list[bytes]) -> float:
    """Answers a second to a few clients that ask again as soon as they were answered."""

    def client(first: int) -> int:
        answered = 0
        with httpx.Client(timeout=60) as one:
            while time.perf_counter() < until:
                content = requests[(first + answered) % IMAGES]
                answered += one.post(f"{url}/infer", content=content).status_code == 200
        return answered

    until = time.perf_counter() + CAPACITY_SECONDS
    with ThreadPoolExecutor(FEW) as pool:
        return sum(pool.map(client, range(FEW))) / CAPACITY_SECONDS


class Load:
    """Requests at a rate, by a bounded number of clients; a request that finds no client free waits for one."""

    def __init__(self, server: int, url: str, requests: list[bytes], right: list[bytes], clients: int) -> None:
        self.server, self.url, self.requests, self.right = server, url, requests, right
        self.waiting: queue.Queue[int | None] = queue.Queue()
        self.statuses: Counter[int] = Counter()
        self.latencies: list[float] = []
        self.wrong = 0
        self.memory: list[int] = []
        """Of the server, every second, in kB."""
        self._lock = threading.Lock()
        self._threads = [threading.Thread(target=self._client) for _ in range(clients)]

    def run(self, rate: float, seconds: float) -> None:
        for thread in self._threads:
            thread.start()
        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            pause = began + number / rate - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            if number % max(1, int(rate)) == 0:
                self.memory.append(memory_kb(self.server))
            self.waiting.put(number % IMAGES)
        for _ in self._threads:
            self.waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _client(self) -> None:
        with httpx.Client(timeout=60) as client:
            while (image := self.waiting.get()) is not None:
                began = time.perf_counter()
                answer = client.post(f"{self.url}/infer", content=self.requests[image])
                took = time.perf_counter() - began
                with self._lock:
                    self.statuses[answer.status_code] += 1
                    if answer.status_code == 200:
                        self.latencies.append(took)
                        self.wrong += answer.content != self.right[image]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="senet:ENTRY", metavar="MODEL", help="[senet:ENTRY of examples/]")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=96, help="so many requests may be under way [96]")
    parser.add_argument("--check", action="store_true", help="exit 1 where something is missed")
    options = parser.parse_args()
    process, url = started(options.model)
    try:
        requests = bodies(url)
        right = [httpx.post(f"{url}/infer", content=each, timeout=60).content for each in requests]
        capacity = most_per_second(url, requests)
        load = Load(process.pid, url, requests, right, options.clients)
        load.run(2 * capacity, options.seconds)
    finally:
        process.send_signal(signal.SIGTERM)
        status = process.wait(timeout=120)
    total = sum(load.statuses.values())
    print(f"{options.model} on {os.cpu_count()} cores: {capacity:.0f} requests a second at most")
    print(
        f"{2 * capacity:.0f} a second for {options.seconds:.0f} s: {total} sent, {dict(sorted(load.statuses.items()))}"
    )
    cuts = statistics.quantiles(load.latencies, n=100)
    shown = ", ".join(f"{name} {cuts[at] * 1e3:.0f}" for name, at in (("median", 49), ("90 %", 89), ("99 %", 98)))
    print(f"latency of those answered, ms: {shown}")
    tenths = [load.memory[len(load.memory) * i // 10] / 1024 for i in range(10)] + [load.memory[-1] / 1024]
    print(f"memory after each tenth of the time, MB: {', '.join(f'{one:.0f}' for one in tenths)}")
    print(f"{load.wrong} answers differ; ended with {status}")
    missed = set(load.statuses) - EXPECTED or load.wrong or tenths[-1] > MOST_GROWTH * tenths[1] or status
    return int(bool(options.check and missed))


if __name__ == "__main__":
    sys.exit(main())
