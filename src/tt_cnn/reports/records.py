# SPDX-License-Identifier: Apache-2.0
"""What a model does on a card, as one structure: every report is a reading of it. `profile.py` makes it.

A row keeps its step and a profile its calls as they were made, so that findings can plan them again. Those fields are
`IN_MEMORY`: no file has them, and two profiles are equal without them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from tt_cnn.builder.configuration import Configuration
from tt_cnn.virtual.arch import Card, card_by_name
from tt_cnn.virtual.cost.bands import Band, band_of_sum
from tt_cnn.virtual.cost.parts import KernelCost
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.planning.plan import FreeMemory, Plan
from tt_cnn.virtual.planning.program import Program, Step

IN_MEMORY = {"in memory": True}
"""Marks fields that no file has."""
_BUSY = 0.95
"""Share of the time from one input to the next that the card works where it is what the pipeline waits for."""

SpanKind = Literal["step", "write", "read"]


@dataclass(frozen=True)
class TensorRecord:
    """A tensor as a step sees it. Views of one buffer share `buffer`, the index into `Profile.buffers`."""

    buffer: int
    shape: tuple[int, ...]
    padded_shape: tuple[int, ...]
    dtype: str
    """As TT-NN spells it: BFLOAT16, BFLOAT8_B, ..."""
    layout: str
    """TILE or ROW_MAJOR."""
    buffer_type: str
    """L1, DRAM, ..."""
    memory_layout: str
    """INTERLEAVED, HEIGHT_SHARDED, WIDTH_SHARDED, BLOCK_SHARDED."""
    shard_shape: tuple[int, int] | None
    shard_cores: int | None
    """Cores that hold a shard."""
    address: int
    total_bytes: int
    page_bytes: int
    memory_config: str
    """In TT-NN's own words."""

    @property
    def memory(self) -> str:
        return f"{self.buffer_type}_{self.memory_layout}"


@dataclass(frozen=True)
class BufferRecord:
    """Memory of the card and the rows during which it is in use, first and last of them included."""

    buffer_type: str
    address: int
    bank_bytes: int
    """Bytes that it takes in every bank (L1: in every core)."""
    shape: tuple[int, ...]
    """Empty for tables of a program in L1_SMALL."""
    dtype: str
    layout: str
    memory_layout: str
    page_bytes: int
    made_by: str
    """The call, and its layer where it has one."""
    first_row: int
    last_row: int
    born_before: bool = False
    """It was there before the first row: weights, inputs that stay."""
    temporary: bool = False
    """Of a call; no tensor of the program."""


@dataclass(frozen=True)
class CircularBufferRecord:
    address: int
    bytes: int
    cores: int
    borrowed: bool
    """It stands on a tensor's memory."""
    name: str = ""
    """What is in it: input, weights, partial sums, ..."""


@dataclass(frozen=True)
class L1Use:
    """A core's L1 at one step, in bytes: circular buffers from below, tensors (and L1_SMALL) from above."""

    buffers: int
    tensors: int
    free: int
    """Between the two; what the step could still take."""


@dataclass(frozen=True)
class Row:
    """One dispatched step."""

    index: int
    call: int
    """The number of the TT-NN call that dispatched it."""
    call_name: str
    """`ttnn.conv2d`"""
    layer: str
    """`encoder1.conv2`, or empty where the model does not name its layers."""
    op: str
    """The device operation: `Conv2d`, `Halo`, ..."""
    factory: str
    attributes: tuple[tuple[str, str], ...]
    """Of the step."""
    arguments: tuple[tuple[str, str], ...]
    """Of the call."""
    fidelity: str
    """LoFi, HiFi2, HiFi3, HiFi4; empty where the step has none."""
    cores: int
    available_cores: int
    core_ranges: str
    inputs: tuple[TensorRecord, ...]
    outputs: tuple[TensorRecord, ...]
    circular_buffers: tuple[CircularBufferRecord, ...]
    cost: KernelCost
    gap_ns: float
    """Between the step before and this one."""
    macs: int
    """Multiply-adds that the layer asks for: grouped convolutions count once."""
    parameters: int
    """Weights and biases that the step reads."""
    dram_bytes: int
    l1: L1Use
    traced: bool
    queue: int
    program_hash: int
    signpost: str = ""
    """The last signpost before it."""
    suffix: str = Program.suffix
    """What the name of the device operation has after `op`."""
    step: Step | None = field(default=None, compare=False, repr=False, metadata=IN_MEMORY)
    """As it was planned; None where the profile was read from a file."""

    @property
    def program(self) -> Program | None:
        """What was decided for it."""
        return None if self.step is None else self.step.program

    @property
    def name(self) -> str:
        """The layer where it is known, else the call."""
        return self.layer or self.call_name.removeprefix("ttnn.")

    @property
    def working_cores(self) -> int:
        """Cores that make a part of the output: a convolution's program also runs on those that only hold input."""
        held = self.outputs[0].shard_cores if self.op == "Conv2d" and self.outputs else None
        return self.cores if held is None else min(self.cores, held)

    @property
    def device_operation(self) -> str:
        """The name that TT-NN's profiler and graphs give the step."""
        return self.op + self.suffix

    @property
    def utilization(self) -> float:
        """PM ideal / kernel duration."""
        return self.cost.pm_ideal_ns / self.cost.ns if self.cost.ns else 0.0

    @property
    def shown_utilization(self) -> tuple[float, float]:
        """In percent, plain and adjusted, for readers: no more than 100.

        tt-metal's rules for the ideal time ignore groups and fixed costs of moves, so that some steps come out quicker
        than ideal; sheets keep its numbers.
        """
        return 100 * min(1.0, self.utilization), 100 * min(1.0, self.adjusted_utilization)

    @property
    def fpu_utilization(self) -> float:
        """PM compute / kernel duration, `PM FPU UTIL`."""
        return self.cost.pm_compute_ns / self.cost.ns if self.cost.ns else 0.0

    @property
    def adjusted_utilization(self) -> float:
        """PM ideal / kernel duration x grid / cores: how well the cores that it has are used."""
        return self.utilization * self.available_cores / self.cores if self.cores else 0.0


@dataclass(frozen=True)
class CallRecord:
    """A TT-NN call as it was made, with all that planning it again takes."""

    operation: str
    """`conv2d`"""
    attributes: Mapping[str, Any]
    plan: Plan
    """With the specs of its tensors, its inputs."""
    places: Mapping[int, Place]
    """The memory of the plan's buffers, by their numbers."""
    memory: FreeMemory
    """What was free when the call came."""
    buffers: Mapping[int, int] = field(default_factory=dict)
    """The plan's buffers in `Profile.buffers`, by their numbers."""


@dataclass(frozen=True)
class Finding:
    """Something that would make the model faster (`findings.py`)."""

    kind: str
    """One of `findings.KINDS`."""
    layer: str
    problem: str
    advice: str
    saves_ns: float
    """Of one input's time, predicted."""
    rows: tuple[int, ...]
    """The steps that it is about."""
    change: Mapping[str, Any] = field(default_factory=dict, compare=False, metadata=IN_MEMORY)
    """The advice as arguments of the call, by the names of TT-NN."""
    caution: str = ""
    """What the advice may cost."""
    lossless: bool = True
    """Whether all values stay the same, so that they need not be compared."""
    changes: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The advice as settings of the builder's layers, by their names, as `tt_cnn.builder.overrides.Assignment` writes
    them; empty where the model's own code would have to change."""

    def __str__(self) -> str:
        said = f"{self.layer} {self.problem}; {self.advice} and save about {microseconds(self.saves_ns)}"
        return f"{said}. {self.caution}" if self.caution else f"{said}."


def between(band: Band) -> str:
    """`, 190 to 225` behind a rate; nothing where there is no band, or none to be seen (transfers set the pace)."""
    low, high = f"{band.low:.0f}", f"{band.high:.0f}"
    return f", {low} to {high}" if low != high else ""


def microseconds(ns: float) -> str:
    us = ns / 1e3
    return f"{us:.0f} µs" if us >= 10 else f"{us:.1f} µs"


@dataclass(frozen=True)
class Signpost:
    before_row: int
    """The row that follows it; the number of rows where none does."""
    header: str
    message: str = ""


@dataclass(frozen=True)
class Transfer:
    """Values between host and card, of one input."""

    direction: Literal["write", "read"]
    call_name: str
    queue: int
    bytes: int
    page_bytes: int
    ns: float
    shape: tuple[int, ...]
    dtype: str
    memory: str


@dataclass(frozen=True)
class Span:
    """Something on a queue's timeline. Times are in ns from the beginning of the inputs that are shown."""

    queue: int
    start_ns: float
    end_ns: float
    kind: SpanKind
    name: str
    row: int | None
    """The step's row; None for transfers."""
    input: int
    """Which of the inputs that are shown it belongs to, from 0; less for what is left of inputs before."""


@dataclass(frozen=True)
class ExecutorResult:
    """What the pipeline would reach with one executor, when it runs evenly."""

    executor: str
    fps: float
    input_ns: float
    """From one input's end to the next one's."""
    latency_ns: float
    """From the start of an input's write to the end of its read."""


@dataclass(frozen=True)
class Accuracy:
    """PCC of one layer or output, when it was measured."""

    layer: str
    pcc: float


@dataclass(frozen=True)
class ModelFacts:
    name: str
    title: str
    task: str
    resolution: tuple[int, int]
    batch_size: int
    precision: str
    outputs: tuple[str, ...]
    parameters: int
    """Of the PyTorch model."""


@dataclass(frozen=True)
class Together:
    """What comes of all findings that can be applied together, planned as one (`tt_cnn.optimizer.findings`)."""

    saves_ns: float
    """Kernels of one input: less than the sum of the findings'."""
    applied: tuple[int, ...]
    """Which findings, by their place in the list."""
    changes: dict[str, dict[str, Any]]
    """All their settings."""


@dataclass(frozen=True)
class Profile:
    model: ModelFacts
    card: str
    executor: str
    created: str
    """UTC, as 2026-01-31T12:00:00."""
    version: str
    """Of tt-cnn."""
    rows: tuple[Row, ...]
    """One input's steps, in the order of their dispatch."""
    buffers: tuple[BufferRecord, ...]
    signposts: tuple[Signpost, ...]
    transfers: tuple[Transfer, ...]
    """One input's."""
    timeline: tuple[Span, ...]
    """Of a few inputs behind `executor`, running evenly."""
    executors: tuple[ExecutorResult, ...]
    l1_size: int
    """Bytes of a core's L1 for circular buffers and tensors."""
    l1_base: int
    """Its first address; the last one is l1_base + l1_size."""
    l1_small_needed: int
    """`l1_small_size` that the model's tables take."""
    trace_bytes: int
    """An estimate of the trace's size."""
    accuracy: tuple[Accuracy, ...] = ()
    chips: int = 1
    """Each with the same model and a batch of its own. Rows are one chip's."""
    findings: tuple[Finding, ...] | None = field(default=None, compare=False)
    """What `findings.find` found; None where it was not called. Files have them, as they lack the calls."""
    together: Together | None = field(default=None, compare=False)
    """What the findings save together; None where it was not planned."""
    configurations: Mapping[str, Configuration] = field(
        default_factory=dict, compare=False, repr=False, metadata=IN_MEMORY
    )
    """Of the model's layers, by their names, where it has some."""
    calls: tuple[CallRecord, ...] = field(default=(), compare=False, repr=False, metadata=IN_MEMORY)
    """By the numbers that rows have of them; none where the profile was read from a file."""

    @property
    def images(self) -> int:
        """Of one pass, on all chips."""
        return self.model.batch_size * self.chips

    @property
    def batch(self) -> str:
        """In words."""
        each = f" on each of {self.chips} chips" if self.chips > 1 else ""
        return f"batch {self.model.batch_size}{each}"

    @cached_property
    def device_ns(self) -> float:
        """All kernels of one input, without gaps."""
        return sum(row.cost.ns for row in self.rows)

    @property
    def gaps_ns(self) -> float:
        return sum(row.gap_ns for row in self.rows)

    @property
    def device_fps(self) -> float:
        return 1e9 * self.images / self.device_ns if self.rows else 0.0

    @cached_property
    def device_band(self) -> Band:
        """Between which times eight of ten such models would be, by the errors measured on published kernel times.

        Zeros where the profile is of an older file that has no bands.
        """
        costs = [(row.op, row.cost) for row in self.rows]
        if not all(cost.high_ns for _, cost in costs):
            return Band(0.0, 0.0)
        return band_of_sum((op, cost.ns, cost.low_ns, cost.high_ns) for op, cost in costs)

    @property
    def device_fps_band(self) -> Band:
        return self._rates(*self.device_band)

    @property
    def fps(self) -> float:
        """End to end, with the executor of this profile."""
        return next((result.fps for result in self.executors if result.executor == self.executor), 0.0)

    @property
    def fps_band(self) -> Band:
        """By the kernels' band. Where the card waits for host or transfers, only longer kernels change anything."""
        interval = next((result.input_ns for result in self.executors if result.executor == self.executor), 0.0)
        low, high = self.device_band
        if not high:
            return self.device_band
        busy = self.device_ns + self.gaps_ns
        shortest = interval - (self.device_ns - low) if busy > _BUSY * interval else interval
        return self._rates(shortest, max(interval, interval + high + self.gaps_ns - max(busy, interval)))

    def _rates(self, shortest_ns: float, longest_ns: float) -> Band:
        frames = 1e9 * self.images
        return Band(*(frames / ns if ns > 0 else 0.0 for ns in (longest_ns, shortest_ns)))

    @property
    def macs(self) -> int:
        return sum(row.macs for row in self.rows)

    @property
    def l1_peak(self) -> int:
        """Bytes of a core's L1 in use at the fullest step."""
        return self.l1_size - min((row.l1.free for row in self.rows), default=self.l1_size)

    @property
    def tightest(self) -> Row | None:
        return min(self.rows, key=lambda row: row.l1.free, default=None)

    @cached_property
    def card_data(self) -> Card:
        return card_by_name(self.card)

    def held(self, row: int) -> list[int]:
        """Indices of the buffers in use while a row runs."""
        return [i for i, buffer in enumerate(self.buffers) if buffer.first_row <= row <= buffer.last_row]
