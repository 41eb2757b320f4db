# SPDX-License-Identifier: Apache-2.0
"""Two recordings of a program compared step by step, field by field.

Steps are matched by their names first, so that one step that only one side has does not make all that follow differ.
A field that the real library does not tell of a step is not compared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import Any

from tt_cnn.conformance.agreement import comparable
from tt_cnn.conformance.live.recording import FINISHED, LiveStep, Recording
from tt_cnn.conformance.tally import Count
from tt_cnn.conformance.verdict import Verdict

STEP_FIELDS = ("step", "factory", "inputs", "outputs", "addresses", "cbs", "staging", "buffers", "frees", "peak")
FIELDS = ("status", *STEP_FIELDS)


@dataclass(frozen=True)
class LiveDifference:
    step: int
    """Of the real library; where only the virtual card has the step, the one before which it stands."""
    op: str
    call: str
    layer: str
    field: str
    real: Any
    virtual: Any


@dataclass
class Comparison:
    """What came of comparing two recordings."""

    steps: int = 0
    """Of the real library."""
    equal: int = 0
    """Those that agree in every field."""
    counts: dict[str, Count] = field(default_factory=dict)
    by_op: dict[str, dict[str, Count]] = field(default_factory=dict)
    differences: list[LiveDifference] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        return not self.differences

    def fields(self) -> list[str]:
        return [name for name in FIELDS if name in self.counts]

    def count(self, op: str, name: str, agrees: bool) -> None:
        self.counts.setdefault(name, Count()).add(agrees)
        if op:
            self.by_op.setdefault(op, {}).setdefault(name, Count()).add(agrees)

    def as_json(self) -> dict[str, Any]:
        def counts(of: dict[str, Count]) -> dict[str, Any]:
            return {name: {"agree": of[name].agree, "total": of[name].total} for name in FIELDS if name in of}

        return {
            "steps": self.steps,
            "equal": self.equal,
            "fields": counts(self.counts),
            "ops": {op: counts(of) for op, of in sorted(self.by_op.items())},
            "differences": [vars(difference) for difference in self.differences],
        }


def compare(real: Recording, virtual: Recording) -> Comparison:
    found = Comparison(steps=len(real.steps))
    for number, mine, other in _matched(real.steps, virtual.steps):
        step = mine or other
        assert step is not None
        side = real if mine is not None else virtual
        verdicts = {"step": Verdict(bool(mine and other), mine and mine.op, other and other.op)}
        if mine is not None and other is not None:
            verdicts |= _compare_step(mine, other)
            peak = _compare_peak(real, virtual, number, mine, other)
            verdicts |= {} if peak is None else {"peak": peak}
        found.equal += all(verdict.agrees for verdict in verdicts.values())
        for name, verdict in verdicts.items():
            found.count(step.op, name, verdict.agrees)
            if not verdict.agrees:
                layer = other.layer if other is not None else ""
                call = side.calls[step.call].name
                found.differences.append(
                    LiveDifference(number, step.op, call, layer, name, verdict.recorded, verdict.found)
                )
    _compare_status(real, virtual, found)
    return found


def _matched(
    real: Sequence[LiveStep], virtual: Sequence[LiveStep]
) -> Iterator[tuple[int, LiveStep | None, LiveStep | None]]:
    """Pairs of steps with the same name in the same place; a step that only one side has stands alone."""
    matcher = SequenceMatcher(None, [s.op for s in real], [s.op for s in virtual], autojunk=False)
    for what, start, end, other_start, other_end in matcher.get_opcodes():
        if what == "equal":
            yield from zip(range(start, end), real[start:end], virtual[other_start:other_end], strict=True)
            continue
        for number in range(start, end):
            yield number, real[number], None
        for step in virtual[other_start:other_end]:
            yield start, None, step


def _compare_step(real: LiveStep, virtual: LiveStep) -> dict[str, Verdict]:
    reported = real.outputs or not virtual.outputs
    if not reported:  # by an op that returns a struct of tensors; steps that read them show how they are
        virtual = replace(virtual, outputs=[])
    verdicts = {
        name: _same(*(read(step) for step in (real, virtual)))
        for name, read in _READ.items()
        if reported or name != "outputs"
    }
    if not real.cached and (real.cbs or real.staging is not None):
        verdicts["cbs"] = _circular_buffers(real, virtual)
    if real.staging is not None and virtual.staging is not None:
        verdicts["staging"] = _same(*(sorted(_in_order(one) for one in s.staging or ()) for s in (real, virtual)))
    return verdicts


def _same(real: Any, virtual: Any) -> Verdict:
    return Verdict(real == virtual, real, virtual)


def _without_address(specs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in spec.items() if name != "address"} for spec in specs]


def _operands(step: LiveStep) -> list[dict[str, Any]]:
    """The inputs without those at the end that are outputs: tensors that were given for the results."""
    operands = list(step.inputs)
    while operands and operands[-1] in step.outputs:
        operands.pop()
    return operands


_READ: dict[str, Callable[[LiveStep], Any]] = {
    "factory": lambda step: step.factory,
    "inputs": lambda step: _without_address(_operands(step)),
    "outputs": lambda step: _without_address(step.outputs),
    "addresses": lambda step: [spec.get("address") for spec in (*_operands(step), *step.outputs)],
    "buffers": lambda step: sorted(step.buffers),
    "frees": lambda step: sorted(step.frees),
}


def _in_order(buffer: list[Any]) -> list[Any]:
    """The order of core ranges has no meaning."""
    return [*buffer[:-1], sorted(buffer[-1])]


def _circular_buffers(real: LiveStep, virtual: LiveStep) -> Verdict:
    """In any order. The addresses of borrowed memory are not known where a program has no other buffers."""
    known = all(cb[0] is not None for cb in real.cbs)
    mine, other = ([_in_order(cb if known else cb[1:]) for cb in s.cbs] for s in (real, virtual))
    return _same(sorted(mine), sorted(other))


def _compare_peak(real: Recording, virtual: Recording, number: int, mine: LiveStep, other: LiveStep) -> Verdict | None:
    """Once a call, at its first step, where both sides made the same steps of it."""
    calls = real.calls[mine.call], virtual.calls[other.call]
    if number and real.steps[number - 1].call == mine.call:
        return None
    if calls[0].steps != calls[1].steps or calls[0].peak is None or calls[1].peak is None:
        return None
    return _same(calls[0].peak, calls[1].peak)


def _compare_status(real: Recording, virtual: Recording, found: Comparison) -> None:
    """Both finish, or both end with the same words."""
    mine, other = (
        FINISHED if run.status == FINISHED else f"{run.error}: {comparable(run.message)}" for run in (real, virtual)
    )
    messages = [comparable(run.message) for run in (real, virtual)]
    agrees = real.status == virtual.status and messages[0] == messages[1]
    found.count("", "status", agrees)
    if not agrees:
        found.differences.append(LiveDifference(len(real.steps), "", "the program", "", "status", mine, other))
