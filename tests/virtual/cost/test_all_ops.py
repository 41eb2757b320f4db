# SPDX-License-Identifier: Apache-2.0
"""Whatever the real library was recorded with has a time on the card: no op is left out, none breaks."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from typing import Any

import pytest

from tests.virtual.cost.layers import steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.planning.plan import Planner, Step

DATA = Path(__file__).parents[2] / "golden" / "data"
LEAST_NS = 340
"""The launch. The shortest published kernel takes 390 ns."""


@pytest.mark.parametrize(
    "corpus",
    ["ops_wormhole.jsonl.gz", "chains_wormhole.jsonl.gz", "conv2d_wormhole.jsonl.gz", "conv2d_blackhole.jsonl.gz"],
)
def test_every_recorded_step_has_a_time(corpus: str, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: dict[str, list[float]] = {}
    dispatch = Planner.dispatch

    def timed(self: Planner, *args: Any, **kwargs: Any) -> None:
        dispatch(self, *args, **kwargs)
        made = self.actions[-1]
        assert isinstance(made, Step)
        names = [buffer.name for buffer in made.buffers]
        assert all(names) and len({*names}) == len(names), (made.op, made.factory, names)
        cost = kernel_cost(made, self.card)
        assert all(isfinite(value) and value >= 0 for value in vars(cost).values()), (made.op, made.factory, cost)
        costs.setdefault(made.op, []).append(cost.ns)

    monkeypatch.setattr(Planner, "dispatch", timed)
    list(replay(read_corpus(DATA / corpus), Tally()))
    assert len(costs) > 5
    assert all(min(times) > LEAST_NS and max(times) < 1e8 for times in costs.values())


def test_nothing_to_do_takes_a_launch() -> None:
    device = PlanOnlyCard()
    empty = ttnn.empty([1, 1, 0, 64], ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, device=device)
    for step in steps_of(device, lambda: ttnn.clone(empty)):
        cost = kernel_cost(step, device.card)
        assert cost.ns == pytest.approx(cost.launch_ns, rel=0.3)
