# SPDX-License-Identifier: Apache-2.0
"""Planning a model behind its executors, and putting what was recorded together into a profile."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any, cast

from torch import nn

import tt_cnn
from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import LayerSettings
from tt_cnn.models.pipelines import EXECUTORS, create_pipeline
from tt_cnn.models.registry import ModelEntry, Resolution, create_tt, model_entry
from tt_cnn.models.tt_model import Precision, TtModel
from tt_cnn.models.without_values import WithoutValues
from tt_cnn.reports.collection import no_collection
from tt_cnn.reports.profile_rows import Reading, read_rows
from tt_cnn.reports.queue_timeline import Timeline, timeline_of, transfers_of
from tt_cnn.reports.recording import PlanningCard, Recorded, recorded
from tt_cnn.reports.records import ExecutorResult, ModelFacts, Profile, Span
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.tracing.trace import estimate_size
from tt_cnn.virtual.types.enums import BufferType

_INPUTS = {False: 3, True: 4}
"""Inputs that go through an executor, without and with a trace; the last that another follows is where it runs evenly.
A traced one needs no planning for them."""
_TRACED = "trace"
"""The executor whose trace is the model and nothing else: its trace size is reported, whatever the executor."""
_SHOWN_INPUTS = 2
"""Inputs on the timeline."""


@dataclass(frozen=True)
class PlannedModel:
    """A model on a card that plans, ready to be called or put behind executors."""

    entry: ModelEntry
    device: PlanningCard
    model: TtModel
    parameters: int

    def host_input(self) -> Any:
        """Zeros: nothing is computed with them."""
        return self.model.to_host_input(self.model.blank_input())

    @property
    def facts(self) -> ModelFacts:
        return ModelFacts(
            name=self.entry.name,
            title=self.entry.title,
            task=self.entry.task,
            resolution=self.model.resolution,
            batch_size=self.model.batch_size,
            precision="",
            outputs=tuple(self.model.outputs),
            parameters=self.parameters,
        )


@contextmanager
def planned_model(
    name: str,
    card: str,
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: str = "tuned",
    l1_small_size: int | None = None,
    config: Mapping[str, LayerSettings] | None = None,
    chips: int | None = None,
    reference: nn.Module | None = None,
) -> Iterator[PlannedModel]:
    """The model with weights that are not used: what happens to be in their memory.

    On all chips of a card, or as many as `chips` says. `reference` is the model to plan where it is not the entry's
    default one: shipped weights may be of a narrower network.
    """
    entry = model_entry(name)
    small = entry.l1_small_size if l1_small_size is None else l1_small_size
    device = PlanningCard(card, small, chips=chips or card_by_name(card).chips)
    try:
        with WithoutValues():
            planned = entry.reference().eval() if reference is None else reference
            model = create_tt(
                entry.name,
                device,
                planned,
                resolution=resolution,
                batch_size=batch_size,
                precision=cast(Precision, precision),
                config=config,
            )
        yield PlannedModel(entry, device, model, sum(p.numel() for p in planned.parameters()))
    finally:
        device.close()


def profile_model(
    name: str,
    *,
    card: str = "n150",
    executor: str = "trace+2cq",
    resolution: Resolution | None = None,
    batch_size: int = 1,
    precision: str = "tuned",
    config: Mapping[str, LayerSettings] | None = None,
    reference: nn.Module | None = None,
    beside: Collection[str] = tuple(EXECUTORS),
) -> Profile:
    """A model of the registry behind a pipeline executor, on a card that plans and computes nothing.

    `beside` are the other executors whose rates are told, too.
    """
    if executor not in EXECUTORS:
        raise ValueError(f"executor is {executor!r}; it must be one of {', '.join(EXECUTORS)}")
    made = planned_model(name, card, resolution, batch_size, precision, config=config, reference=reference)
    with made as planned, no_collection():
        device = planned.device
        runs = {each: run_executor(planned, each) for each in EXECUTORS if each in (*beside, executor, _TRACED)}
        results = tuple(_result(each, run.timeline, batch_size * device.chips) for each, run in runs.items())
        chosen = runs[executor]
        reading = _with_gaps(read_rows(chosen.one_input, device, chosen.traced), chosen.timeline)
        return Profile(
            **_common(device, reading),
            model=replace(planned.facts, precision=precision),
            card=card,
            executor=executor,
            transfers=transfers_of(chosen.one_input, device),
            timeline=_last_inputs(chosen.timeline, reading),
            executors=results,
            trace_bytes=_trace_bytes(runs[_TRACED].one_input),
            configurations=configurations_of(planned.model),
        )


def configurations_of(model: TtModel) -> dict[str, Configuration]:
    """Of all its layers, by their names."""
    return {name: layer.configuration for name, layer in model.layers.items()}


def profile_fitting(planned: PlannedModel, name: str) -> tuple[Profile, CardError | None]:
    """One input through an executor, as `profile_model` reads it; where the card refuses a call, the calls before it
    and the refusal."""
    refusal: CardError | None = None
    device = planned.device
    with ttnn.command_queue(0), recorded(device) as notes, no_collection():
        try:
            calls = _executed(planned, name, notes).one_input
        except CardError as error:
            refusal = error
            calls = [note for note in notes if note.command.trace_id is not None] or notes
    profile = profile_commands(
        calls, device, name=planned.entry.name, traced=EXECUTORS[name].use_trace, batch_size=planned.model.batch_size
    )
    if refusal is None and name != _TRACED:
        profile = replace(profile, trace_bytes=_trace_bytes(run_executor(planned, _TRACED).one_input))
    return profile, refusal


def profile_commands(
    recorded: Sequence[Recorded],
    device: MeshDevice,
    *,
    name: str = "commands",
    traced: bool = False,
    batch_size: int = 1,
    configurations: Mapping[str, Configuration] | None = None,
) -> Profile:
    """What was recorded on a device with `tt_cnn.reports.recording.recorded`, as one input's work."""
    timeline = timeline_of([list(recorded)], device, traced)
    reading = _with_gaps(read_rows(recorded, device, traced), timeline)
    return Profile(
        **_common(device, reading),
        model=ModelFacts(name, name, "", (0, 0), batch_size, "", (), sum(row.parameters for row in reading.rows)),
        card=device.card.name,
        executor="trace" if traced else "plain",
        transfers=transfers_of(recorded, device),
        timeline=_last_inputs(timeline, reading),
        executors=(_result("trace" if traced else "plain", timeline, batch_size * device.chips),),
        trace_bytes=_trace_bytes(recorded),
        configurations=configurations or {},
    )


def _common(device: MeshDevice, reading: Reading) -> dict[str, Any]:
    return {
        "created": datetime.now(timezone.utc).replace(tzinfo=None).isoformat(timespec="seconds"),
        "version": tt_cnn.__version__,
        "rows": tuple(reading.rows),
        "calls": tuple(reading.calls),
        "buffers": tuple(reading.buffers),
        "signposts": tuple(reading.signposts),
        "chips": device.chips,
        "l1_size": device.card.l1_size - device.card.l1_base,
        "l1_base": device.card.l1_base,
        "l1_small_needed": device.memory.regions[BufferType.L1_SMALL].allocated,
    }


# --- executors ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExecutorRun:
    """A few inputs through one executor: all that was enqueued for one of them, and when it would happen."""

    traced: bool
    one_input: list[Recorded]
    timeline: Timeline


def run_executor(planned: PlannedModel, name: str) -> ExecutorRun:
    with ttnn.command_queue(0), recorded(planned.device) as notes:
        return _executed(planned, name, notes)


def _executed(planned: PlannedModel, name: str, notes: list[Recorded]) -> ExecutorRun:
    """`notes` is the list that the device's commands are recorded in."""
    executor = create_pipeline(planned.model, name).executor
    host_input = planned.host_input()
    inputs: list[list[Recorded]] = []
    try:
        executor.compile(host_input)
        captured = [note for note in notes if note.command.trace_id is not None]
        for _ in range(_INPUTS[executor.traced]):
            before = len(notes)
            executor.push(host_input)
            inputs.append(notes[before:])
        before = len(notes)
        executor.flush()
        inputs.append(notes[before:])
        ttnn.synchronize_device(planned.device)
    finally:
        executor.cleanup()
    streams = [_with_replays(one, captured) for one in inputs]
    return ExecutorRun(executor.traced, _one_input(streams), timeline_of(streams, planned.device, executor.traced))


def _with_replays(notes: list[Recorded], captured: list[Recorded]) -> list[Recorded]:
    """The commands of a trace in place of its replay."""
    stream: list[Recorded] = []
    for note in notes:
        replays = note.command.trace_id is not None and note.command.plan is None
        stream += [replace(one, after=note.after) for one in captured] if replays else [note]
    return stream


def _one_input(streams: list[list[Recorded]]) -> list[Recorded]:
    """The last input's commands; executors that read late enqueue its reads after it."""
    last, late = streams[-2], streams[-1]
    if not late:
        return last
    reads = {id(note) for note in last if _is_read(note)}
    return [note for note in last if id(note) not in reads] + late


def _is_read(note: Recorded) -> bool:
    command = note.command
    return command.plan is None and bool(command.accesses) and not any(access.write for access in command.accesses)


def _result(name: str, timeline: Timeline, images: int) -> ExecutorResult:
    return ExecutorResult(
        executor=name,
        fps=1e9 * images / timeline.input_ns if timeline.input_ns else 0.0,
        input_ns=timeline.input_ns,
        latency_ns=timeline.latency_ns,
    )


def _with_gaps(reading: Reading, timeline: Timeline) -> Reading:
    """Gaps as they are on the timeline of the last input: without a trace they depend on how long kernels run."""
    last = max((span.input for span in timeline.spans if span.kind == "step"), default=0)
    steps = {span.row: span for span in timeline.spans if span.kind == "step" and span.input == last}
    rows = list(reading.rows)
    for before, row in pairwise(rows):
        if before.index in steps and row.index in steps:
            gap = max(0.0, steps[row.index].start_ns - steps[before.index].end_ns)
            rows[row.index] = replace(row, gap_ns=gap)
    return replace(reading, rows=rows)


def _last_inputs(timeline: Timeline, reading: Reading) -> tuple[Span, ...]:
    """The timeline of the last inputs, from 0, with the rows that its steps are, and what else runs meanwhile."""
    numbers = sorted({span.input for span in timeline.spans})[-_SHOWN_INPUTS:]
    start = min((span.start_ns for span in timeline.spans if span.input in numbers), default=0.0)
    spans = [span for span in timeline.spans if span.input in numbers or span.end_ns > start]
    return tuple(
        replace(
            span,
            start_ns=max(0.0, span.start_ns - start),
            end_ns=span.end_ns - start,
            input=span.input - numbers[0],
            row=span.row if span.row is not None and span.row < len(reading.rows) else None,
        )
        for span in spans
    )


def _trace_bytes(notes: Sequence[Recorded]) -> int:
    """Of the trace, or of that which the model would make."""
    traced = [note for note in notes if note.command.trace_id is not None] or notes
    return estimate_size([step for note in traced for step in note.command.steps])
