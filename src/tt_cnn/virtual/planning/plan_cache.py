"""Plans made before, those not used for long dropped first, so that a search over thousands of shapes stays small."""

from __future__ import annotations

from collections.abc import Hashable

from tt_cnn.virtual.planning.plan import Plan

Gaps = tuple[tuple[int, int], ...]
"""What is free in L1, which is all that planning knows of the memory."""


class PlanCache:
    """Plans by what was asked; those that depend on the memory also by its gaps.

    Whether a plan asks for the memory does not depend on what is free there, so one plan of a request tells it of all.
    Requests are in two generations: when the younger has half of all plans, the older is dropped but for what was used.
    """

    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._young: dict[Hashable, dict[Gaps | None, Plan]] = {}
        self._old: dict[Hashable, dict[Gaps | None, Plan]] = {}
        self._made = 0
        """Plans put into the younger."""

    def get(self, request: Hashable, gaps: Gaps) -> Plan | None:
        plans = self._young.get(request)
        if plans is None:
            plans = self._old.pop(request, None)
            if plans is None:
                return None
            self._keep(request, plans)
        return plans.get(None) or plans.get(gaps)

    def put(self, request: Hashable, gaps: Gaps, plan: Plan) -> None:
        kept = gaps if plan.reads_memory else None
        if request in self._young:
            self._young[request][kept] = plan
            self._made += 1
        else:
            self._keep(request, {kept: plan})

    def _keep(self, request: Hashable, plans: dict[Gaps | None, Plan]) -> None:
        if self._made >= self.limit // 2:
            self._young, self._old, self._made = {}, self._young, 0
        self._young[request] = plans
        self._made += len(plans)

    def __len__(self) -> int:
        return sum(len(plans) for plans in (*self._young.values(), *self._old.values()))
