# SPDX-License-Identifier: Apache-2.0
"""What the virtual card answers to a call, in the terms of the recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.conformance.peak import dry_peak, peak_of
from tt_cnn.conformance.planning_card import Began, PlanningCard
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.planning.happenings import Entered, Happening, Ran, Taken
from tt_cnn.virtual.planning.placement import PlacedStep
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import StorageType
from tt_cnn.virtual.types.geometry import CoreRangeSet

Ranges = list[list[list[int]]]
Call = Callable[[], Any]
"""A call whose inputs are made."""


class NotThere(Exception):
    """The virtual card has no such op (or option) yet."""


@dataclass
class Answer:
    status: str
    """`ok`, `error` (a refusal with a message) or `broken` (anything a user should never see)."""
    message: str = ""
    output: dict[str, Any] = field(default_factory=dict)
    address: int | None = None
    more: list[dict[str, Any]] = field(default_factory=list)
    """The specs of all further tensors that came back, with their addresses."""
    rest: list[Any] = field(default_factory=list)
    """What else came back: numbers, None."""
    steps: list[PlacedStep] = field(default_factory=list)
    allocations: list[list[Taken]] = field(default_factory=list)
    """Memory that each step takes itself: for its outputs, and for the tables of its program."""
    peak: dict[str, int] = field(default_factory=dict)
    graph_peak: dict[str, int] = field(default_factory=dict)
    """As the graph of a dry run has it; of a refused call, up to the refusal."""
    tensor: Tensor | None = None
    returned: Any = None


def attempt(card: PlanningCard, prepare: Callable[[], Call]) -> Answer:
    """Make a recorded call's inputs, and then the call. An input that is refused is an answer, like a refused call.

    Only what the card says counts as its answer: a record that `prepare` does not understand raises a LookupError.
    """
    try:
        call = prepare()
    except NotThere:
        raise
    except (RuntimeError, ValueError, TypeError) as error:
        return _refused(error)
    return answer(card, call)


def answer(card: PlanningCard, call: Call) -> Answer:
    """Make a call and read everything that the recordings know of it from the card's commands."""
    graph_peak = dry_peak(card, call)
    found = _answer(card, call)
    found.graph_peak = graph_peak
    return found


def _answer(card: PlanningCard, call: Call) -> Answer:
    start = len(card.happenings)
    try:
        with card.record_commands() as commands:
            returned = call()
    except NotThere:
        raise
    except NotImplementedError as error:
        return Answer("broken", f"not implemented: {error}")
    except (RuntimeError, ValueError, TypeError) as error:
        return _refused(error)
    except Exception as error:
        return Answer("broken", f"{type(error).__name__}: {error}")
    values = list(_flat(returned))
    happened = card.happenings[start:]
    steps = [step for command in commands for step in command.steps]
    tensors = [one for one in values if isinstance(one, Tensor)]
    first = tensors[0] if tensors else None
    return Answer(
        "ok",
        output={} if first is None else describe(first),
        address=None if first is None else _address(first),
        more=[_with_address(one) for one in tensors[1:]],
        rest=[one for one in values if not isinstance(one, Tensor)],
        steps=steps,
        allocations=_own_allocations(steps, happened),
        peak=peak_of(happened),
        tensor=first,
        returned=returned,
    )


def _own_allocations(steps: list[PlacedStep], happened: Iterable[Happening | Began]) -> list[list[Taken]]:
    """What was taken between the call of each device operation and the run of its program."""
    own: dict[int, list[Taken]] = {}
    entered: list[Taken] | None = None
    for one in happened:
        if isinstance(one, Entered):
            entered = own[id(one.placed)] = []
        elif isinstance(one, Ran):
            entered = None
        elif isinstance(one, Taken) and entered is not None:
            entered.append(one)
    return [own[id(step)] for step in steps]


def _refused(error: Exception) -> Answer:
    return Answer("error", error.message if isinstance(error, CardError) else str(error))


def _flat(returned: Any) -> Iterator[Any]:
    if isinstance(returned, list | tuple):
        for one in returned:
            yield from _flat(one)
    else:
        yield returned


def _address(tensor: Tensor) -> int | None:
    return tensor.buffer_address() if tensor.is_allocated() and not is_on_host(tensor) else None


def _with_address(tensor: Tensor) -> dict[str, Any]:
    address = _address(tensor)
    return describe(tensor) if address is None else describe(tensor) | {"address": address}


def is_on_host(tensor: Tensor) -> bool:
    return tensor.storage_type() is StorageType.HOST


def describe(tensor: Tensor) -> dict[str, Any]:
    """A tensor's spec as the recordings write it."""
    described: dict[str, Any] = {
        "shape": list(tensor.shape),
        "padded_shape": list(tensor.padded_shape),
        "dtype": tensor.dtype.name,
        "layout": tensor.layout.name,
    }
    if is_on_host(tensor):
        return described | {"host": True}
    config = tensor.memory_config()
    described |= {"memory_layout": config.memory_layout.name, "buffer_type": config.buffer_type.name}
    shard = config.shard_spec
    if shard is not None:
        described["shard_shape"] = list(shard.shape)
        described["orientation"] = shard.orientation.name
        described["grid"] = ranges_of(shard.grid)
    return described


def ranges_of(cores: CoreRangeSet) -> Ranges:
    return [[[r.start.x, r.start.y], [r.end.x, r.end.y]] for r in cores.ranges()]
