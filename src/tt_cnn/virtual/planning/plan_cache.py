"""Plans made before, the least recently used dropped first, so that a search over thousands of shapes stays small."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from tt_cnn.virtual.planning.plan import Plan


class PlanCache:
    def __init__(self, limit: int = 4096) -> None:
        self.limit = limit
        self._plans: OrderedDict[Hashable, Plan] = OrderedDict()

    def get(self, key: Hashable) -> Plan | None:
        plan = self._plans.get(key)
        if plan is not None:
            self._plans.move_to_end(key)
        return plan

    def put(self, key: Hashable, plan: Plan) -> None:
        self._plans[key] = plan
        if len(self._plans) > self.limit:
            self._plans.popitem(last=False)

    def __len__(self) -> int:
        return len(self._plans)
