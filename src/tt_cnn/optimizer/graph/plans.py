# SPDX-License-Identifier: Apache-2.0
"""Plans by what is asked for, made once: a search asks for the same thing again and again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tt_cnn.virtual.ttnn  # noqa: F401  it registers all operations
from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.operation import OPERATIONS, plan_call
from tt_cnn.virtual.planning.plan import Allocate, FreeMemory, Plan, Refuse
from tt_cnn.virtual.planning.plan_cache import PlanCache
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec

_MOST_PLANS = 200_000


class Request(NamedTuple):
    """A call without the specs of its tensors. Equal ones have the same `number`, which is quick to look up."""

    number: int
    operation: str
    numbering: tuple[int, ...]
    attributes: Mapping[str, Any]


class Plans:
    """Of one card."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.made = 0
        """Plans that were not known before."""
        self._numbers: dict[object, int] = {}
        self._plans = PlanCache(_MOST_PLANS)
        self._refused: set[object] = set()

    def request(self, operation: str, numbering: tuple[int, ...], attributes: Mapping[str, Any]) -> Request:
        key = operation, numbering, tuple(attributes.items())
        return Request(self._numbers.setdefault(key, len(self._numbers)), operation, numbering, attributes)

    def plan(self, request: Request, specs: tuple[Spec, ...], memory: Memory) -> Plan | None:
        """None where the card refuses it, whatever is free."""
        key, gaps = (request.number, specs), memory.regions[BufferType.L1].gaps
        if key in self._refused:
            return None
        plan = self._plans.get(key, gaps)
        if plan is None:
            self.made += 1
            plan = self._make(request, specs, memory)
            if plan is None:
                self._refused.add(key)
                return None
            self._plans.put(key, gaps, plan)
        return plan

    def _make(self, request: Request, specs: tuple[Spec, ...], memory: Memory) -> Plan | None:
        operation, free = OPERATIONS[request.operation], FreeMemory.of(memory)
        try:
            plan = plan_call(self.card, operation, specs, request.numbering, request.attributes, free)
        except RuntimeError:  # grids of cores that no card has are refused when they are made
            return None
        return plan if self._is_possible(plan) else None

    def least_ns(self, plan: Plan) -> float:
        """All its steps but moves, which are not dispatched where the tensor stays where it is."""
        return sum(kernel_cost(step, self.card).ns for step in plan.steps if not step.moves)

    def _is_possible(self, plan: Plan) -> bool:
        try:
            for action in plan.actions:
                if isinstance(action, Refuse):
                    return False
                if isinstance(action, Allocate):
                    check_shard_grid(self.card, action.slot.spec)
        except CardError:
            return False
        return True
