# SPDX-License-Identifier: Apache-2.0
"""What a second command queue and a trace are worth on the virtual card. `python benchmarks/pipeline.py [--check]`.

Two queues: a traced model on one queue and on two, torch on one thread, medians of rounds, with inputs whose transfer
takes as long as the model, in two ways:

- Over a link. The CPU engine shares values between host and card, so its transfers take no time of their own. The
  benchmark gives it a link: a transfer holds its queue for as long as its bytes take at the link's rate and leaves the
  CPU alone, as a card's DMA does. The rate is set so that a write takes as long as the model.
- With copies. The stock engine, and a persistent input with padding, so that each write copies the input, on the CPU.
  The rows that the model works on are set so that it takes as long. This needs a second core that is free, and memory
  that feeds both: where two threads of plain torch, one that pads and one that computes, gain little from running
  together, two queues cannot gain more. So their gain is measured beside it, in the same rounds, and the limit holds
  where they reach 1.65.

All else is what users run: the pipeline, the queues' threads, events, the trace, hazards on.

Replay: what executing a trace without commands costs the host, blocking or not.

With `--check`, a missed limit ends with status 1.
"""

from __future__ import annotations

import functools
import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from figure import Figure

from tt_cnn import ttnn
from tt_cnn.pipeline import Pipeline, PipelineConfig, create_pipeline_from_config
from tt_cnn.pipeline.executors.timing import Timing, time_verbs
from tt_cnn.virtual.engines.creation import ENGINES
from tt_cnn.virtual.engines.engine import Engine

ROWS, COLUMNS = 2048, 1024
COPIED_ROWS = 4096
"""Copies take some milliseconds."""
BANKS, CORES = 4, (8, 4)
UNPADDED, PADDED = COLUMNS, COLUMNS - 24
"""Columns of the input. Shards pad both to the same columns, on the way to DRAM; staging changes nothing."""
LINKED_ROWS = 512
"""Rows that the model computes with: some milliseconds."""
RESULT_ROWS = 32
"""Rows of its output, so that reads are short."""
ELEMENT_BYTES = 2
INPUTS, ROUNDS = 40, 11
ENOUGH_OF_A_MACHINE = 1.65
"""What two threads of torch must gain for two queues to be asked for 1.6."""
REPLAYS = 1000


class LinkedEngine(Engine):
    """The CPU engine behind a link of so many bytes a second."""

    rate = float("inf")

    def upload(self, host: torch.Tensor) -> torch.Tensor:
        time.sleep(host.numel() * ELEMENT_BYTES / self.rate)
        return host

    def download(self, value: torch.Tensor) -> torch.Tensor:
        return self.upload(value)


ENGINES["linked"] = LinkedEngine


def model(rows: int) -> Callable[[Any], Any]:
    """Element-wise work on the first rows of the input."""

    def run(x: Any) -> Any:
        width = x.shape[-1]
        part = ttnn.slice(x, [0, 0, 0, 0], [1, 1, rows, width], memory_config=ttnn.DRAM_MEMORY_CONFIG)
        worked = ttnn.gelu(ttnn.silu(ttnn.to_layout(part, ttnn.TILE_LAYOUT)))
        return ttnn.slice(worked, [0, 0, 0, 0], [1, 1, RESULT_ROWS, width])

    return run


def shards(where: Any, grid: tuple[int, int], height: int) -> Any:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid[0] - 1, grid[1] - 1))])
    spec = ttnn.ShardSpec(cores, [height, COLUMNS // (grid[0] * grid[1])], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, where, spec)


def create(device: Any, queues: int, rows: int, sample: Any) -> Pipeline:
    return create_pipeline_from_config(
        PipelineConfig(use_trace=True, num_command_queues=queues),
        model(rows),
        device,
        l1_input_memory_config=shards(ttnn.BufferType.L1, CORES, sample.shape[-2]),
        dram_input_memory_config=shards(ttnn.BufferType.DRAM, (BANKS, 1), sample.shape[-2]),
    )


def host_input(rows: int, columns: int) -> Any:
    return ttnn.from_torch(torch.randn(1, 1, rows, columns), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)


def alone(pipe: Pipeline, sample: Any) -> Timing:
    """Medians of the verbs when nothing overlaps."""
    timings = [time_verbs(pipe.executor, sample) for _ in range(ROUNDS)]
    return Timing(*(statistics.median(times) for times in zip(*timings, strict=True)))


def frames_per_second(pipe: Pipeline, sample: Any) -> float:
    start = time.perf_counter()
    pipe.enqueue([sample] * INPUTS).pop_all()
    return INPUTS / (time.perf_counter() - start)


@dataclass
class Rounds:
    """What each round measured."""

    what: str
    ratios: list[float]
    times: list[tuple[float, ...]]

    @property
    def gain(self) -> float:
        """How many times the fps of one queue two of them reach."""
        return statistics.median(self.ratios)

    def __str__(self) -> str:
        one, two, write, compute, read = (statistics.median(values) for values in zip(*self.times, strict=True))
        return (
            f"{self.what}: alone write {1000 * write:.2f} ms, compute {1000 * compute:.2f} ms, read "
            f"{1000 * read:.2f} ms; one queue {one:.1f} fps, two queues {two:.1f} fps"
        )


def measure(device: Any, sample: Any, what: str, balance: Callable[[], int], beside: Callable[[int], None]) -> Rounds:
    """Each round balances transfer and compute again, so that a machine that is busy now and then slows all alike."""
    rounds = Rounds(what, [], [])
    for turn in range(ROUNDS):
        rows = balance()
        with create(device, 1, rows, sample).compile(sample) as pipe:
            timing = alone(pipe, sample)
        fps = {}
        for queues in (1, 2) if turn % 2 else (2, 1):
            with create(device, queues, rows, sample).compile(sample) as pipe:
                fps[queues] = frames_per_second(pipe, sample)
        rounds.ratios.append(fps[2] / fps[1])
        rounds.times.append((fps[1], fps[2], *timing))
        beside(rows)
    print(rounds)
    return rounds


def over_a_link() -> Figure:
    device = ttnn.open_device(device_id=0, num_command_queues=2, engine="linked")
    sample = host_input(ROWS, UNPADDED)

    def balance() -> int:
        LinkedEngine.rate = float("inf")
        with create(device, 1, LINKED_ROWS, sample).compile(sample) as pipe:
            LinkedEngine.rate = ROWS * UNPADDED * ELEMENT_BYTES / alone(pipe, sample).compute
        return LINKED_ROWS

    try:
        rounds = measure(device, sample, "transfers over a link", balance, lambda rows: None)
    finally:
        ttnn.close_device(device)
    return Figure("two queues beside one, transfer as long as compute", rounds.gain, "times", 1.6, at_least=True)


def with_copies() -> tuple[Figure, float]:
    """The figure, and what two threads of torch gained meanwhile."""
    device = ttnn.open_device(device_id=0, num_command_queues=2)
    sample = host_input(COPIED_ROWS, PADDED)
    threads = []

    def balance() -> int:
        """Rows, in whole tiles, for which the model takes as long as a write."""
        timings = {}
        for rows in (64, 256):
            with create(device, 1, rows, sample).compile(sample) as pipe:
                timings[rows] = alone(pipe, sample)
        write = statistics.median(timing.write for timing in timings.values())
        each = (timings[256].compute - timings[64].compute) / 192
        fitting = 64 + (write - timings[64].compute) / each
        return 32 * max(1, min(COPIED_ROWS // 32, round(fitting / 32)))

    try:
        rounds = measure(device, sample, "transfers that copy", balance, lambda rows: threads.append(two_threads(rows)))
    finally:
        ttnn.close_device(device)
    figure = Figure("two queues beside one, copy as long as compute", rounds.gain, "times", 1.6, at_least=True)
    return figure, statistics.median(threads)


def two_threads(rows: int) -> float:
    """What this machine gains by padding and computing at the same time, without the virtual card.

    Both take equally long alone: the computation is repeated until it does.
    """
    source, worked = torch.randn(COPIED_ROWS, PADDED), torch.randn(rows, COLUMNS)

    def pads() -> None:
        for _ in range(INPUTS):
            torch.nn.functional.pad(source, (0, COLUMNS - PADDED))

    def computes(times: int = 1) -> None:
        for _ in range(times):
            torch.nn.functional.gelu(torch.nn.functional.silu(worked))

    def took(*jobs: Callable[[], None]) -> float:
        threads = [threading.Thread(target=job) for job in jobs]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    times = max(1, round(took(pads) / (took(lambda: computes(INPUTS)) / INPUTS)))
    equal = functools.partial(computes, times)
    return (took(pads) + took(equal)) / took(pads, equal)


def empty_replay(blocking: bool) -> Figure:
    device = ttnn.open_device(device_id=0)
    try:
        trace = ttnn.begin_trace_capture(device, cq_id=0)
        ttnn.end_trace_capture(device, trace, cq_id=0)
        rounds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(REPLAYS):
                ttnn.execute_trace(device, trace, cq_id=0, blocking=blocking)
            ttnn.synchronize_device(device)
            rounds.append((time.perf_counter() - start) / REPLAYS)
        kind = "blocking" if blocking else "not blocking"
        return Figure(f"replay of an empty trace, {kind}", 1e6 * statistics.median(rounds), "us", 30)
    finally:
        ttnn.close_device(device)


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    copies, threads = with_copies()
    figures = [over_a_link(), empty_replay(True), empty_replay(False)]
    for figure in figures:
        print(figure)
    print(copies)
    print(f"{'two threads of torch, padding beside computing':<52} {threads:8.2f} times")
    if threads >= ENOUGH_OF_A_MACHINE:
        figures.append(copies)
    else:
        print("  the machine has no second core free for copies: their limit does not count here")
    return int("--check" in sys.argv and not all(figure.met for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
