"""What an error says after TT-NN's own sentence: which step, who holds the memory, and changes that would fit.

Every change that is named was planned and placed on a copy of the card's memory as the call found it. That is done when
the error is read: a search over configurations catches thousands of errors that nobody reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, current_layer
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.placement import Place, Placement, ProgramIds, place
from tt_cnn.virtual.planning.plan import FreeMemory, Plan
from tt_cnn.virtual.planning.program import ProgramKey
from tt_cnn.virtual.tensors.storage import LiveBuffer
from tt_cnn.virtual.types.enums import BufferType

_MOST_HOLDERS = 4
_MOST_SUGGESTIONS = 3
"""Of the call's own arguments; one that moves another tensor away may come with them."""
_SEARCH_SECONDS = 1.0
"""An error should come while the user still remembers the call."""


@dataclass(frozen=True)
class Alternative:
    """A change of a call's arguments, in the words a user would type."""

    words: str
    attributes: dict[str, Any]
    kind: str = ""
    """Of several changes of one kind (block heights, say) the first that fits is named."""


PlanOf = Callable[[dict[str, Any], FreeMemory], Plan]
"""Plans the call with some arguments changed, in a memory."""


@dataclass(frozen=True)
class _Situation:
    """The card when the call was refused. The search comes when the error is read, and memory may be another then."""

    memory: Memory
    held: list[LiveBuffer]
    """L1, the largest first."""
    programs: Container[ProgramKey]
    plan_of: PlanOf
    inputs: dict[int, Place]


def explain(
    error: CardError,
    device: MeshDevice,
    what: str,
    plan_of: PlanOf,
    inputs: dict[int, Place],
    alternatives: Sequence[Alternative],
) -> None:
    """Let the error say its place, the holders of L1, and what would fit."""
    layer = current_layer()
    line = f"  {what}" + (f" of {layer!r}" if layer else "") + (f", {error.where}" if error.where else "")
    if not device.advises:
        error.explanation = lambda: [line]
        return
    now = _Situation(device.memory.copy(), _in_l1(device), frozenset(device.program_cache.programs), plan_of, inputs)

    def lines() -> list[str]:
        fitting = [*_fitting(now, alternatives), *_without_another(now)]
        return [line, *_labelled("held by", _holders(now.held)), *_labelled("fits", fitting)]

    error.explanation = lines


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
    entries = [f"{_named(one)}, {one.place.bank_bytes} B a core" for one in held[:_MOST_HOLDERS]]
    rest = held[_MOST_HOLDERS:]
    if rest:
        entries.append(f"{len(rest)} smaller tensors, {sum(one.place.bank_bytes for one in rest)} B a core")
    return entries


def _fitting(now: _Situation, alternatives: Sequence[Alternative]) -> list[str]:
    deadline = time.monotonic() + _SEARCH_SECONDS
    found: dict[str, str] = {}
    for alternative in alternatives:
        if len(found) == _MOST_SUGGESTIONS or time.monotonic() > deadline:
            break
        kind = alternative.kind or alternative.words
        if kind in found:
            continue
        peak = _peak(now, alternative.attributes)
        if peak is not None:
            found[kind] = _needs(alternative.words, peak, now.memory.card)
    return list(found.values())


def _without_another(now: _Situation) -> list[str]:
    """The smallest tensor of another call, a skip connection say, with which in DRAM the call fits as it is."""
    ours = {place.address for place in now.inputs.values() if place.buffer_type is BufferType.L1}
    others = [one for one in now.held[:_MOST_HOLDERS] if one.place.address not in ours]
    for one in reversed(others):
        peak = _peak(now, {}, without=one.place)
        if peak is not None:
            return [_needs(f"{_named(one)} in DRAM", peak, now.memory.card)]
    return []


def _needs(words: str, peak: int, card: Card) -> str:
    room = card.l1_size - card.l1_base
    return f"{words:<50} needs {peak / 1024:5.0f} KB of {room / 1024:.0f} KB a core"


def _peak(now: _Situation, changes: dict[str, Any], without: Place | None = None) -> int | None:
    """Bytes of a core's L1 in use at the fullest step, or None where the change does not fit either."""
    memory = now.memory.copy()
    try:
        if without is not None:
            memory.free(without.buffer_type, without.address)
        plan = now.plan_of(changes, FreeMemory.of(memory))
        placement = place(plan, memory, now.inputs, now.programs, ProgramIds())
    except Exception:  # whatever stops a change that was only tried, the error that is read says what was asked for
        return None
    return _peak_l1(placement, now.memory)


def _peak_l1(placement: Placement, memory: Memory) -> int:
    """Circular buffers from below and tensors from above, at the fullest step."""
    base, top = memory.card.l1_base, memory.card.l1_size
    peak = top - (memory.regions[BufferType.L1].lowest or top)
    for placed in placement.steps:
        pairs = zip(placed.step.buffers, placed.buffer_addresses, strict=True)
        end = max((address + b.bytes for b, address in pairs if b.alias is None), default=base)
        peak = max(peak, end - base + top - (placed.lowest_l1 or top))
    return peak
