"""Plans made before, the least recently used dropped first, so that a search over thousands of shapes stays small."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from tt_cnn.virtual.planning.plan import Plan

Gaps = tuple[tuple[int, int], ...]
"""What is free in L1, which is all that planning knows of the memory."""


class PlanCache:
    """Plans by what was asked; those that depend on the memory also by its gaps.

    Whether a plan asks for the memory does not depend on what is free there, so one plan of a request tells it of all.
    """

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._plans: OrderedDict[Hashable, dict[Gaps | None, Plan]] = OrderedDict()
        self._count = 0

    def get(self, request: Hashable, gaps: Gaps) -> Plan | None:
        plans = self._plans.get(request)
        if plans is None:
            return None
        self._plans.move_to_end(request)
        return plans.get(None) or plans.get(gaps)

    def put(self, request: Hashable, gaps: Gaps, plan: Plan) -> None:
        self._plans.setdefault(request, {})[gaps if plan.reads_memory else None] = plan
        self._count += 1
        while self._count > self.limit:
            self._count -= len(self._plans.popitem(last=False)[1])

    def __len__(self) -> int:
        return self._count
