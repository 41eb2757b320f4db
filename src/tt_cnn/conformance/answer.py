"""What the virtual card answers to a call, in the terms of the recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tt_cnn.conformance.peak import dry_peak, peak_of
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.planning.placement import PlacedStep
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.geometry import CoreRangeSet

Ranges = list[list[list[int]]]


class NotThere(Exception):
    """The virtual card has no such op (or option) yet."""


@dataclass
class Answer:
    status: str
    """`ok`, `error` (a refusal with a message) or `broken` (anything a user should never see)."""
    message: str = ""
    output: dict[str, Any] = field(default_factory=dict)
    address: int | None = None
    steps: list[PlacedStep] = field(default_factory=list)
    peak: dict[str, int] = field(default_factory=dict)
    graph_peak: dict[str, int] = field(default_factory=dict)
    """As the graph of a dry run has it; of a refused call, up to the refusal."""
    tensor: Tensor | None = None


def answer(card: PlanningCard, call: Callable[[], Tensor]) -> Answer:
    """Make a call and read everything that the recordings know of it from the card's commands."""
    graph_peak = dry_peak(card, call)
    found = _answer(card, call)
    found.graph_peak = graph_peak
    return found


def _answer(card: PlanningCard, call: Callable[[], Tensor]) -> Answer:
    start = len(card.happenings)
    try:
        with card.record_commands() as commands:
            output = call()
    except NotThere:
        raise
    except NotImplementedError as error:
        return Answer("broken", f"not implemented: {error}")
    except (RuntimeError, ValueError, TypeError) as error:
        return Answer("error", error.message if isinstance(error, CardError) else str(error))
    except Exception as error:
        return Answer("broken", f"{type(error).__name__}: {error}")
    return Answer(
        "ok",
        output=describe(output),
        address=output.buffer_address(),
        steps=[step for command in commands for step in command.steps],
        peak=peak_of(card.happenings[start:]),
        tensor=output,
    )


def describe(tensor: Tensor) -> dict[str, Any]:
    """A tensor's spec as the recordings write it."""
    config = tensor.memory_config()
    described: dict[str, Any] = {
        "shape": list(tensor.shape),
        "padded_shape": list(tensor.padded_shape),
        "dtype": tensor.dtype.name,
        "layout": tensor.layout.name,
        "memory_layout": config.memory_layout.name,
        "buffer_type": config.buffer_type.name,
    }
    shard = config.shard_spec
    if shard is not None:
        described["shard_shape"] = list(shard.shape)
        described["orientation"] = shard.orientation.name
        described["grid"] = ranges_of(shard.grid)
    return described


def ranges_of(cores: CoreRangeSet) -> Ranges:
    return [[[r.start.x, r.start.y], [r.end.x, r.end.y]] for r in cores.ranges()]
