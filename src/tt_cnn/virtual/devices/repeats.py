# SPDX-License-Identifier: Apache-2.0
"""Calls that are made again and again on the same tensors, as pipelines stage their inputs: one command serves for all.

A call that only writes into tensors it was given takes no memory of its own. As long as memory is as it was, planning
and placing it again would give the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.plan import Plan
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import Cell
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.tracing.trace_memory import reads_of
from tt_cnn.virtual.types.tensor_spec import Spec


class Repeat(NamedTuple):
    command: Command
    plan: Plan
    reads: tuple[Cell, ...]
    """Without those that it only writes."""
    specs: tuple[Spec, ...]
    """Of the tensors: others may look at the same memory."""
    gaps: tuple[object, ...]
    """Of the memory when it was placed."""


class Repeats:
    LIMIT = 64

    def __init__(self) -> None:
        self._known: dict[Hashable, Repeat] = {}

    def find(
        self, key: Hashable, tensors: Sequence[Tensor], memory: Memory, programs_cached: Callable[[Plan], bool]
    ) -> Repeat | None:
        """The command of the same call, where it is still right."""
        if not self._known:
            return None
        try:
            known = self._known.get(key)
        except TypeError:  # an attribute that no plan can be kept for; making one says which
            return None
        return known if known is not None and self.is_right(known, tensors, memory, programs_cached) else None

    @staticmethod
    def is_right(
        known: Repeat, tensors: Sequence[Tensor], memory: Memory, programs_cached: Callable[[Plan], bool]
    ) -> bool:
        if known.gaps != memory.gaps or not programs_cached(known.plan):
            return False
        for tensor, spec in zip(tensors, known.specs, strict=True):
            if tensor.spec is not spec:
                return False
        return all([cell.written for cell in known.reads])

    def keep(self, key: Hashable, tensors: Sequence[Tensor], memory: Memory, command: Command, plan: Plan) -> None:
        if command.cached and command.trace_id is None and plan.works_in_place:
            if len(self._known) >= self.LIMIT:
                self._known.clear()
            specs = tuple(tensor.spec for tensor in tensors)
            self._known[key] = Repeat(command, plan, tuple(reads_of(command)), specs, memory.gaps)
