"""What a second command queue and a trace are worth on the virtual card. `python benchmarks/pipeline.py [--check]`.

Two queues: a traced model on one queue and on two, torch on one thread, medians of rounds, with inputs whose transfer
takes as long as the model. The CPU engine shares values between host and card, so its
transfers take no time of their own. The benchmark gives it a link: a transfer holds its queue for as long as its bytes
take at the link's rate and leaves the CPU alone, as a card's DMA does. The rate is set so that a write takes as long as
the model. All else is what users run: the pipeline, the queues' threads, events, the trace, hazards on.

`--padding` adds a transfer that takes CPU time instead: the persistent input has padding, so each write of the stock
engine copies the input. It has no limit, since it needs a second core that is free: where two threads of plain torch,
one that pads and one that computes, gain nothing from running together, two queues cannot either. What it gains is
told beside what those two threads gain.

Replay: what executing a trace without commands costs the host, blocking or not.

With `--check`, a missed limit ends with status 1.
"""

from __future__ import annotations

import statistics
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.pipeline import Pipeline, PipelineConfig, create_pipeline_from_config
from tt_cnn.pipeline.executors.timing import Timing, time_verbs
from tt_cnn.virtual.engines.engine import ENGINES, Engine

ROWS, COLUMNS = 2048, 1024
BANKS, CORES = 4, (8, 4)
UNPADDED, PADDED = COLUMNS, COLUMNS - 24
"""Columns of the input. Shards pad both to the same columns, on the way to DRAM; staging changes nothing."""
LINKED_ROWS, PADDING_ROWS = 512, 128
"""Rows that the model computes with: some milliseconds, and about as long as padding takes."""
RESULT_ROWS = 32
"""Rows of its output, so that reads are short."""
ELEMENT_BYTES = 2
INPUTS, ROUNDS = 40, 11
REPLAYS = 1000


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value < self.limit

    def __str__(self) -> str:
        word = "at least" if self.at_least else "under"
        verdict = "" if self.met else "   MISSED"
        return f"{self.what:<52} {self.value:8.2f} {self.unit:<6} (limit: {word} {self.limit:g}){verdict}"


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


def shards(where: Any, grid: tuple[int, int]) -> Any:
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(grid[0] - 1, grid[1] - 1))])
    spec = ttnn.ShardSpec(cores, [ROWS, COLUMNS // (grid[0] * grid[1])], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.WIDTH_SHARDED, where, spec)


def create(device: Any, queues: int, rows: int) -> Pipeline:
    return create_pipeline_from_config(
        PipelineConfig(use_trace=True, num_command_queues=queues),
        model(rows),
        device,
        l1_input_memory_config=shards(ttnn.BufferType.L1, CORES),
        dram_input_memory_config=shards(ttnn.BufferType.DRAM, (BANKS, 1)),
    )


def host_input(columns: int) -> Any:
    return ttnn.from_torch(torch.randn(1, 1, ROWS, columns), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT)


def alone(pipe: Pipeline, sample: Any) -> Timing:
    """Medians of the verbs when nothing overlaps."""
    timings = [time_verbs(pipe.executor, sample) for _ in range(ROUNDS)]
    return Timing(*(statistics.median(times) for times in zip(*timings, strict=True)))


def frames_a_second(pipe: Pipeline, sample: Any) -> float:
    start = time.perf_counter()
    pipe.enqueue([sample] * INPUTS).pop_all()
    return INPUTS / (time.perf_counter() - start)


def gain(device: Any, sample: Any, rows: int, what: str, balance: Callable[[Timing], None]) -> float:
    """How many times the fps of one queue two of them reach: the median of rounds.

    Each round balances transfer and compute anew, so that a machine that is busy now and then slows all alike.
    """
    rounds = []
    for turn in range(ROUNDS):
        with create(device, 1, rows).compile(sample) as pipe:
            balance(alone(pipe, sample))
            timing = alone(pipe, sample)
        fps = {}
        for queues in (1, 2) if turn % 2 else (2, 1):
            with create(device, queues, rows).compile(sample) as pipe:
                fps[queues] = frames_a_second(pipe, sample)
        rounds.append((fps[2] / fps[1], fps[1], fps[2], *timing))
    _, one, two, write, compute, read = (statistics.median(values) for values in zip(*rounds, strict=True))
    print(
        f"{what}: alone write {1000 * write:.2f} ms, compute {1000 * compute:.2f} ms, read {1000 * read:.2f} ms; "
        f"one queue {one:.1f} fps, two queues {two:.1f} fps"
    )
    return statistics.median(ratio for ratio, *_ in rounds)


def two_queues() -> Figure:
    device = ttnn.open_device(device_id=0, num_command_queues=2, engine="linked")

    def balance(timing: Timing) -> None:
        LinkedEngine.rate = ROWS * UNPADDED * ELEMENT_BYTES / timing.compute

    try:
        times = gain(device, host_input(UNPADDED), LINKED_ROWS, "transfers over a link", balance)
        return Figure("two queues beside one, transfer as long as compute", times, "times", 1.6, at_least=True)
    finally:
        ttnn.close_device(device)


def padding() -> str:
    device = ttnn.open_device(device_id=0, num_command_queues=2)
    try:
        times = gain(device, host_input(PADDED), PADDING_ROWS, "transfers that pad", lambda timing: None)
    finally:
        ttnn.close_device(device)
    return f"two queues beside one, transfers on the CPU: {times:.2f} times; two threads of torch: {two_threads():.2f}"


def two_threads() -> float:
    """What this machine gains by padding and computing at the same time, without the virtual card."""
    source, worked = torch.randn(ROWS, PADDED), torch.randn(PADDING_ROWS, COLUMNS)

    def pads() -> None:
        for _ in range(INPUTS):
            torch.nn.functional.pad(source, (0, COLUMNS - PADDED))

    def computes() -> None:
        for _ in range(INPUTS):
            torch.nn.functional.gelu(torch.nn.functional.silu(worked))

    def took(*jobs: Callable[[], None]) -> float:
        threads = [threading.Thread(target=job) for job in jobs]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return time.perf_counter() - start

    return statistics.median((took(pads) + took(computes)) / took(pads, computes) for _ in range(ROUNDS))


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
    figures = [two_queues(), empty_replay(True), empty_replay(False)]
    for figure in figures:
        print(figure)
    if "--padding" in sys.argv:
        print(padding())
    return int("--check" in sys.argv and not all(figure.met for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
