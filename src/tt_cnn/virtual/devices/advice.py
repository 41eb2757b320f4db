"""What an error says after TT-NN's own sentence: which step, who holds the memory, and changes that would fit.

Every change that is named was planned and placed on the card's memory as it is now, and taken back, before it is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError, current_layer
from tt_cnn.virtual.planning.placement import Place, Placement, ProgramIds, place
from tt_cnn.virtual.planning.plan import Plan
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


def explain(
    error: CardError,
    device: MeshDevice,
    what: str,
    plan_of: Callable[[dict[str, Any]], Plan],
    inputs: dict[int, Place],
    alternatives: Iterable[Alternative],
) -> CardError:
    """The error with its place, the holders of L1, and what would fit."""
    layer = current_layer()
    lines = [f"  {what}" + (f" of {layer!r}" if layer else "") + (f", {error.where}" if error.where else "")]
    if device.advises:
        lines += _labelled("held by", _holders(device))
        fitting = _fitting(device, plan_of, inputs, alternatives)
        lines += _labelled("fits", [*fitting, *_without_another(device, plan_of, inputs)])
    error.args = ("\n".join([error.args[0], *lines]),)
    return error


def _labelled(label: str, entries: list[str]) -> list[str]:
    indent = " " * (len(label) + 2)
    return [f"  {f'{label}: ' if not i else indent}{entry}" for i, entry in enumerate(entries)]


def _in_l1(device: MeshDevice) -> list[LiveBuffer]:
    """The largest first."""
    held = [one for one in device.live.values() if one.place.buffer_type is BufferType.L1]
    return sorted(held, key=lambda one: (-one.place.bank_bytes, one.place.address))


def _named(one: LiveBuffer) -> str:
    return f"{'x'.join(map(str, one.spec.shape))} {one.spec.dtype.name.lower()} from {one.made_by}"


def _holders(device: MeshDevice) -> list[str]:
    """The largest tensors in L1."""
    held = _in_l1(device)
    entries = [f"{_named(one)}, {one.place.bank_bytes} B a core" for one in held[:_MOST_HOLDERS]]
    rest = held[_MOST_HOLDERS:]
    if rest:
        entries.append(f"{len(rest)} smaller tensors, {sum(one.place.bank_bytes for one in rest)} B a core")
    return entries


def _fitting(
    device: MeshDevice,
    plan_of: Callable[[dict[str, Any]], Plan],
    inputs: dict[int, Place],
    alternatives: Iterable[Alternative],
) -> list[str]:
    deadline = time.monotonic() + _SEARCH_SECONDS
    found: dict[str, str] = {}
    for alternative in alternatives:
        if len(found) == _MOST_SUGGESTIONS or time.monotonic() > deadline:
            break
        kind = alternative.kind or alternative.words
        if kind in found:
            continue
        peak = _peak(device, plan_of, inputs, alternative.attributes)
        if peak is not None:
            found[kind] = _needs(alternative.words, peak, device)
    return list(found.values())


def _without_another(
    device: MeshDevice, plan_of: Callable[[dict[str, Any]], Plan], inputs: dict[int, Place]
) -> list[str]:
    """The smallest tensor of another call, a skip connection say, with which in DRAM the call fits as it is."""
    ours = {place.address for place in inputs.values() if place.buffer_type is BufferType.L1}
    others = [one for one in _in_l1(device)[:_MOST_HOLDERS] if one.place.address not in ours]
    for one in reversed(others):
        peak = _peak(device, plan_of, inputs, {}, without=one.place)
        if peak is not None:
            return [_needs(f"{_named(one)} in DRAM", peak, device)]
    return []


def _needs(words: str, peak: int, device: MeshDevice) -> str:
    room = device.card.l1_size - device.card.l1_base
    return f"{words:<50} needs {peak / 1024:5.0f} KB of {room / 1024:.0f} KB a core"


def _peak(
    device: MeshDevice,
    plan_of: Callable[[dict[str, Any]], Plan],
    inputs: dict[int, Place],
    changes: dict[str, Any],
    without: Place | None = None,
) -> int | None:
    """Bytes of a core's L1 in use at the fullest step, or None where the change does not fit either."""
    before = device.memory.snapshot()
    try:
        if without is not None:
            device.memory.free(without.buffer_type, without.address)
        plan = plan_of(changes)
        placement = place(plan, device.memory, inputs, device.program_cache.programs, ProgramIds())
    except CardError:
        return None
    finally:
        device.memory.restore(before)
    return peak_l1(placement, device)


def peak_l1(placement: Placement, device: MeshDevice) -> int:
    """Circular buffers from below and tensors from above, at the fullest step."""
    base, top = device.card.l1_base, device.card.l1_size
    peak = top - (device.memory.regions[BufferType.L1].lowest or top)
    for placed in placement.steps:
        pairs = zip(placed.step.buffers, placed.buffer_addresses, strict=True)
        end = max((address + b.bytes for b, address in pairs if b.alias is None), default=base)
        peak = max(peak, end - base + top - (placed.lowest_l1 or top))
    return peak
