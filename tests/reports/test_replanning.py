# SPDX-License-Identifier: Apache-2.0
"""Calls are kept as made: planned again they are what they were, and with a change what the card makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.reports.planted import found, image, profiled
from tests.reports.test_findings import PLANTED, convolution
from tests.reports.test_findings_products import PRODUCTS, product
from tt_cnn import ttnn
from tt_cnn.reports.findings import find
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.reports.records import Finding, Profile
from tt_cnn.reports.replanning import KnownCall, Planned, Replanner
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.conv2d.conv2d import Conv2d
from tt_cnn.virtual.planning.program import Step


def keys(steps: Sequence[Step]) -> list[Any]:
    """Programs with the specs of their tensors."""
    return [step.program_key for step in steps]


@pytest.mark.parametrize(("name", "card"), [("vanilla_unet", "n150"), ("resnet50", "p150"), ("yolov4", "n150")])
def test_an_unchanged_call_is_planned_as_it_was(name: str, card: str, profile_of: Callable[..., Profile]) -> None:
    replanner = Replanner(profile_of(name, card=card))
    for number, made in enumerate(replanner.profile.calls):
        if number not in replanner.calls:
            continue  # a move that moved nothing
        specs = [slot.spec for slot in made.plan.inputs]
        again = replanner.plan(made.operation, specs, made.attributes, number)
        now = replanner.call(number).now
        assert again is not None and keys(again.steps) == keys(now.steps) and again.output == now.output
        assert again.kernel_ns == pytest.approx(now.kernel_ns)
        call = replanner.convolution(number)
        if call is not None:  # its weights come from the host then
            again = replanner.plan_as(call)
            assert again is not None and keys(again.steps) == keys(now.steps)


RULES = {
    "few cores": "shard_layout",
    "weights": "weights",
    "fidelity": "fidelity",
    "block height": "block height",
    "double buffering": "double buffering",
    "matmul program": "core grid",
}
"""The kind of alternative that a kind of finding comes from."""


def planned_as_advised(replanner: Replanner, call: KnownCall, finding: Finding) -> Planned | None:
    """The alternative whose change the finding tells, planned again."""
    output = finding.change.get("memory_config")
    change = {name: value for name, value in finding.change.items() if name != "memory_config"}
    kinds = ["core grid", "shard_layout"] if finding.kind == "few cores" else [RULES[finding.kind]]
    (ours,) = [one for one in replanner.alternatives(call) if one.kind in kinds and dict(one.change) == change]
    return replanner.plan_as(call, ours, output=output)


@pytest.mark.parametrize("kind", PLANTED)
def test_a_changed_convolution_is_what_the_card_plans_for_it(card: PlanningCard, kind: str) -> None:
    side, channels, planted = PLANTED[kind]
    before = profiled(card, lambda: image(card, side * side, channels), convolution(card, side, channels, **planted))
    finding, replanner = found(before, kind), Replanner(before)
    planned = planned_as_advised(replanner, replanner.call(0), finding)
    changed = convolution(card, side, channels, **{**planted, **finding.change})
    check_same(planned, profiled(card, lambda: image(card, side * side, channels), changed))


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_changed_product_is_what_the_card_plans_for_it(card: PlanningCard, kind: str) -> None:
    rows, inner, outer, planted = PRODUCTS[kind]
    before = profiled(card, lambda: image(card, rows, inner), product(card, inner, outer, **planted))
    finding, replanner = found(before, kind), Replanner(before)
    planned = planned_as_advised(replanner, replanner.call(0), finding)
    changed = product(card, inner, outer, **{**planted, **finding.change})
    check_same(planned, profiled(card, lambda: image(card, rows, inner), changed))


def check_same(planned: Planned | None, profile: Profile) -> None:
    assert planned is not None
    assert keys(planned.steps) == keys([row.step for row in profile.rows if row.step is not None])
    assert planned.kernel_ns == pytest.approx(profile.device_ns)


def test_what_the_card_refuses_is_no_finding_and_a_fault_is_told(
    card: PlanningCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, channels, planted = PLANTED["fidelity"]
    profile = profiled(card, lambda: image(card, side * side, channels), convolution(card, side, channels, **planted))
    for error in (CardError("refused"), KeyError("ours")):

        def broken(*_: Any, error: Exception = error, **__: Any) -> Any:
            raise error

        monkeypatch.setattr(Conv2d, "plan", broken)
        if isinstance(error, CardError):
            assert find(profile, least_ns=1.0) == []
        else:
            with pytest.raises(KeyError, match="ours"):
                find(profile, least_ns=1.0)


def test_a_call_with_a_core_grid_of_its_own_is_looked_at(card: PlanningCard) -> None:
    grid = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 3))})
    planted = {"core_grid": grid, "override_sharding_config": True, "math_fidelity": ttnn.MathFidelity.HiFi4}
    profile = profiled(card, lambda: image(card, 64 * 64, 128), convolution(card, 64, 128, **planted))
    assert found(profile, "fidelity").change == {"math_fidelity": ttnn.MathFidelity.LoFi}
