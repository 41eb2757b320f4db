# SPDX-License-Identifier: Apache-2.0
"""What an error says after TT-NN's own sentence: which step, who holds the memory, and changes that would fit.

Every change that is named was planned and placed on a copy of the card's memory as the call found it. That is done when
the error is read: a search over configurations catches thousands of errors that are never read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, current_layer
from tt_cnn.virtual.memory.memory import Memory, OutOfMemory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.planning.alternatives import Alternative
from tt_cnn.virtual.planning.placement import Place, Placement, ProgramIds, place
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory, Plan
from tt_cnn.virtual.planning.program import ProgramKey
from tt_cnn.virtual.tensors.storage import LiveBuffer
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec

_MOST_HOLDERS = 4
_MOST_SUGGESTIONS = 3
"""Of the call's own arguments; one that moves another tensor away may come with them."""
_SEARCH_SECONDS = 1.0
"""An error should come while the user still remembers the call."""
_L1_SMALL_STEP = 8192
"""Sizes of L1_SMALL are tried in steps of this many bytes."""

PlanOf = Callable[[Mapping[str, Any], Mapping[int, Spec], FreeMemory], Plan]
"""Plans the call with some arguments changed, and some tensors given in another form, in a memory."""
Rules = Callable[[], Iterable[Alternative]]
"""Other forms of the call, the mildest first."""


@dataclass(frozen=True)
class _Fitting:
    """A change that the card takes, and the bytes of a core's L1 in use at its fullest step."""

    words: str
    peak: int
    alternative: Alternative | None = None


@dataclass
class _Situation:
    """The card when the call was refused. The search comes when the error is read, and memory may be another then."""

    memory: Memory
    held: list[LiveBuffer]
    """L1, the largest first."""
    programs: Container[ProgramKey]
    plan_of: PlanOf
    inputs: dict[int, Place]
    rules: Rules

    @cached_property
    def fitting(self) -> list[_Fitting]:
        """Of the call's own arguments, one of each kind."""
        deadline = time.monotonic() + _SEARCH_SECONDS
        found: dict[str, _Fitting] = {}
        for alternative in self.rules():
            if len(found) == _MOST_SUGGESTIONS or time.monotonic() > deadline:
                break
            if "room" not in alternative.purposes or alternative.kind in found:
                continue
            peak = self.peak(self.memory.copy(), alternative.attributes, alternative.specs)
            if peak is not None:
                found[alternative.kind] = _Fitting(alternative.words, peak, alternative)
        return list(found.values())

    def peak(
        self, memory: Memory, changes: Mapping[str, Any] | None = None, specs: Mapping[int, Spec] | None = None
    ) -> int | None:
        """Bytes of a core's L1 in use at the fullest step, or None where the card does not take the change either."""
        inputs = dict(self.inputs)
        try:
            for number, spec in (specs or {}).items():
                need = memory.footprint(spec)
                inputs[number] = Place(need.buffer_type, memory.allocate(need), need.bank_bytes)
            plan = self.plan_of(changes or {}, specs or {}, FreeMemory.of(memory))
            for action in plan.actions:
                if isinstance(action, Allocate):
                    check_shard_grid(memory.card, action.slot.spec)
            placement = place(plan, memory, inputs, self.programs, ProgramIds())
        except CardError:
            return None
        return _peak_l1(placement, memory)


def explain(
    error: CardError,
    device: MeshDevice,
    what: str,
    plan_of: PlanOf,
    inputs: dict[int, Place],
    rules: Rules,
) -> None:
    """Let the error say its place, the holders of L1, and what would fit."""
    layer = current_layer()
    error.call = what + (f" of {layer!r}" if layer else "")
    line = f"  {error.call}" + (f", {error.where}" if error.where else "")
    if not device.advises:
        error.explanation = lambda: [line]
        return
    programs = frozenset(device.program_cache.programs)
    now = _Situation(device.memory.copy(), _in_l1(device), programs, plan_of, inputs, rules)
    l1_small = isinstance(error, OutOfMemory) and error.region.name is BufferType.L1_SMALL

    def lines() -> list[str]:
        try:
            elsewhere = _larger_l1_small(now) if l1_small else _without_another(now)
            fitting = [*elsewhere, *now.fitting] if l1_small else [*now.fitting, *elsewhere]
        except Exception as fault:  # the refusal must be reported all the same, and the fault with it
            return [line, f"  a fault of tt-cnn, please report it: {type(fault).__name__} of a change: {fault}"]
        fits = [_needs(one, now.memory.card) for one in fitting]
        held = [] if l1_small else _holders(now.held)
        return [line, *_labelled("held by", held), *_labelled("fits", fits)]

    error.explanation = lines
    error.remedies = lambda: [one.alternative for one in now.fitting]


def _labelled(label: str, entries: list[str]) -> list[str]:
    indent = " " * (len(label) + 2)
    return [f"  {f'{label}: ' if not i else indent}{entry}" for i, entry in enumerate(entries)]


def _in_l1(device: MeshDevice) -> list[LiveBuffer]:
    """The largest first."""
    held = [one for one in device.live.values() if one.place.buffer_type is BufferType.L1]
    return sorted(held, key=lambda one: (-one.place.bank_bytes, one.place.address))


def _named(one: LiveBuffer) -> str:
    return f"{'x'.join(map(str, one.spec.shape))} {one.spec.dtype.name.lower()} from {one.made_by}"


def _holders(held: list[LiveBuffer]) -> list[str]:
    """The largest tensors in L1."""
    entries = [f"{_named(one)}, {one.place.bank_bytes} B per core" for one in held[:_MOST_HOLDERS]]
    rest = held[_MOST_HOLDERS:]
    if rest:
        more = "1 more tensor" if len(rest) == 1 else f"{len(rest)} more tensors"
        entries.append(f"{more}, {sum(one.place.bank_bytes for one in rest)} B per core")
    return entries


def _without_another(now: _Situation) -> Iterator[_Fitting]:
    """The smallest tensor of another call, a skip connection say, with which in DRAM the call fits as it is."""
    ours = {place.address for place in now.inputs.values() if place.buffer_type is BufferType.L1}
    others = [one for one in now.held[:_MOST_HOLDERS] if one.place.address not in ours]
    for one in reversed(others):
        memory = now.memory.copy()
        memory.free(one.place.buffer_type, one.place.address)
        peak = now.peak(memory)
        if peak is not None:
            yield _Fitting(f"{_named(one)} in DRAM", peak)
            return


def _larger_l1_small(now: _Situation) -> Iterator[_Fitting]:
    """The smallest size of L1_SMALL with which the call fits as it is."""
    had = now.memory.regions[BufferType.L1_SMALL].size
    free = now.memory.regions[BufferType.L1].largest_free
    for size in range(had - had % _L1_SMALL_STEP + _L1_SMALL_STEP, had + free + 1, _L1_SMALL_STEP):
        memory = now.memory.with_larger_l1_small(size - had)
        peak = None if memory is None else now.peak(memory)
        if peak is not None:
            yield _Fitting(f"l1_small_size={size} when the device is opened", peak)
            return


def _needs(one: _Fitting, card: Card) -> str:
    room = card.l1_size - card.l1_base
    return f"{one.words:<50} needs {one.peak / 1024:5.0f} KB of {room / 1024:.0f} KB per core"


def _peak_l1(placement: Placement, memory: Memory) -> int:
    """Circular buffers from below and tensors from above, at the fullest step."""
    base, top = memory.card.l1_base, memory.card.l1_size
    peak = top - (memory.regions[BufferType.L1].lowest or top)
    for placed in placement.steps:
        pairs = zip(placed.step.buffers, placed.buffer_addresses, strict=True)
        end = max((address + b.bytes for b, address in pairs if b.alias is None), default=base)
        peak = max(peak, end - base + top - (placed.lowest_l1 or top))
    return peak
