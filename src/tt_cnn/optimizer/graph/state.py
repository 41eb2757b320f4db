# SPDX-License-Identifier: Apache-2.0
"""A way through the first calls of a graph: where each tensor is, what is free, and what it took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tt_cnn.optimizer.graph.calls import CallGraph
from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import round_up
from tt_cnn.virtual.types.tensor_spec import Spec


class Held(NamedTuple):
    """A tensor in memory."""

    spec: Spec
    place: Place


class Choice(NamedTuple):
    """What was chosen for one call; choices before it are `before`."""

    call: int
    layer: str
    settings: Mapping[str, Any]
    before: Choice | None


@dataclass
class State:
    memory: Memory
    tensors: dict[int, Held]
    """Without those that were in DRAM before the first call."""
    ns: float = 0.0
    choices: Choice | None = None
    as_recorded: bool = True
    """No call was given anything else than in the recording."""

    @property
    def key(self) -> tuple[tuple[int, Spec], ...]:
        """States with the same tensors in the same memories differ only in what they took."""
        return tuple(sorted((number, held.spec) for number, held in self.tensors.items()))  # numbers are distinct

    @property
    def room(self) -> int:
        """Where the lowest tensor of L1 begins: programs have their buffers below it."""
        lowest = self.memory.regions[BufferType.L1].lowest
        return self.memory.card.l1_size if lowest is None else lowest

    def branch(self) -> State:
        """The same to change."""
        return State(self.memory.copy(), dict(self.tensors), self.ns, self.choices, self.as_recorded)

    def hold(self, tensor: int, spec: Spec, place: Place) -> None:
        """The tensor is there now; where it was before is free."""
        before = self.tensors.get(tensor)
        self.tensors[tensor] = Held(spec, place)
        if before is not None and before.place != place:
            self._free(before.place)

    def forget(self, tensor: int) -> None:
        """Its memory was given back already."""
        self.tensors.pop(tensor, None)

    def release(self, tensors: Iterable[int]) -> None:
        """Give tensors back; those that share memory with others leave it to them."""
        for tensor in tensors:
            held = self.tensors.pop(tensor, None)
            if held is not None:
                self._free(held.place)

    def _free(self, place: Place) -> None:
        if not any(other.place == place for other in self.tensors.values()):
            self.memory.free(place.buffer_type, place.address)


def first_state(graph: CallGraph, card: Card, memory: Memory) -> State:
    """Before the first call. `memory` is the card's: only the sizes of its regions are taken over."""
    small = memory.regions[BufferType.L1_SMALL].size
    empty = Memory(card, l1_small_size=small)
    tensors = {}
    for number, live in graph.given.items():
        if live.place.buffer_type is BufferType.L1 and live.place.bank_bytes:
            alignment = empty.regions[BufferType.L1].alignment
            empty.take(BufferType.L1, live.place.address, round_up(live.place.bank_bytes, alignment))
            tensors[number] = Held(live.spec, live.place)
    return State(empty, tensors)
