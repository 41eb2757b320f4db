# SPDX-License-Identifier: Apache-2.0
"""What memory holds while a program runs, followed as the program is made.

Steps are made in the order in which they run, so each access can be checked when its step is made: a step may read a
node's values only where a step before has left them and no other has written since. A program that would read before
it writes, or use memory after it was given to something else, is refused here and never runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tt_cnn.virtual.engines.replay.graph import Node


class BrokenProgram(Exception):
    """A fault of ours: a program that would compute with the wrong values."""


@dataclass(frozen=True)
class Region:
    """A part of some memory: entries `first` to `last` of every row of `row` entries."""

    memory: int
    row: int
    first: int
    last: int

    def meets(self, other: Region) -> bool:
        if self.memory != other.memory:
            return False
        return self.row != other.row or (self.first < other.last and other.first < self.last)


def value_of(node: Node) -> Region:
    """In place of memory: a tensor of its own, made again at every run."""
    return Region(-id(node), 1, 0, 1)


@dataclass(frozen=True)
class _Held:
    since: int
    looks_at: tuple[tuple[Node, Region], ...]


class Ledger:
    def __init__(self) -> None:
        self._time = 0
        self._held: dict[tuple[int, Region], _Held] = {}
        self._writes: dict[int, list[tuple[int, Node, Region]]] = {}
        """By memory: when, what, where."""

    def step(
        self,
        reads: Iterable[tuple[Node, Region]],
        writes: tuple[Node, Region],
        looks_at: Sequence[tuple[Node, Region]] = (),
    ) -> None:
        """A step that reads values and leaves others. `looks_at`: those are a view of what is there."""
        node, region = writes
        for one, here in reads:
            self.read(one, here)
            if here.meets(region):
                raise BrokenProgram(f"a step for {node.kind} reads {one.kind} from the memory that it writes")
        self._time += 1
        self._held[id(node), region] = _Held(self._time, tuple(looks_at))
        self._writes.setdefault(region.memory, []).append((self._time, node, region))

    def join(self, parts: Sequence[tuple[Node, Region]], whole: tuple[Node, Region]) -> None:
        """Parts that lie side by side are a whole from here on."""
        for node, region in parts:
            self.read(node, region)
        covered = sum(region.last - region.first for _, region in parts)
        if covered != whole[1].last - whole[1].first:
            raise BrokenProgram(f"the parts of {whole[0].kind} do not cover it")
        self._held[id(whole[0]), whole[1]] = _Held(self._time, ())

    def read(self, node: Node, region: Region) -> None:
        """Values are needed that must be there."""
        held = self._held.get((id(node), region))
        if held is None:
            raise BrokenProgram(f"{node.kind} of shape {node.shape} is read before it is written")
        for when, writer, where in reversed(self._writes.get(region.memory, ())):
            if when <= held.since:
                break
            if where.meets(region) and not (writer is node and where == region):
                raise BrokenProgram(
                    f"{node.kind} of shape {node.shape} is read after {writer.kind} was written over it"
                )
        for one, there in held.looks_at:
            self.read(one, there)
