"""Calls are kept as made: planned again they are what they were, and with a change what the card makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tt_cnn.reports.replanning_matmul import MatmulCall, matmul_of, plan_matmul

from tests.reports.planted import found, image, profiled
from tests.reports.test_findings import PLANTED, convolution
from tests.reports.test_findings_products import PRODUCTS, product
from tt_cnn import ttnn
from tt_cnn.reports.findings import find
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.reports.records import Profile
from tt_cnn.reports.replanning import ConvolutionCall, Planned, Replanner
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.conv2d.conv2d import Conv2d
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.types.tensor_spec import Spec


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
        now = replanner.now(number)
        assert again is not None and keys(again.steps) == keys(now.steps) and again.output == now.output
        assert again.kernel_ns == pytest.approx(now.kernel_ns)
        call = replanner.convolution(number)
        if call is not None:  # its weights come from the host then
            again = replanner.plan_convolution(call)
            assert again is not None and keys(again.steps) == keys(now.steps)


CONVOLUTION_CHANGES: dict[str, Callable[[ConvolutionCall, dict[str, Any]], ConvolutionCall]] = {
    "few cores": lambda call, change: call.but(
        shard_layout=change["shard_layout"], act_block_h_override=0, override_sharding_config=False
    ),
    "weights": lambda call, change: call.but(**change),
    "fidelity": lambda call, change: call.with_fidelity(change["math_fidelity"]),
    "block height": lambda call, change: call.but(**change),
    "double buffering": lambda call, change: call.but(**change),
}


@pytest.mark.parametrize("kind", PLANTED)
def test_a_changed_convolution_is_what_the_card_plans_for_it(card: PlanningCard, kind: str) -> None:
    side, channels, planted = PLANTED[kind]
    before = profiled(card, lambda: image(card, side * side, channels), convolution(card, side, channels, **planted))
    change = dict(found(before, kind).change)
    replanner = Replanner(before)
    call = replanner.convolution(0)
    assert call is not None
    planned = replanner.plan_convolution(CONVOLUTION_CHANGES[kind](call, change), like_before="memory_config" in change)
    changed = convolution(card, side, channels, **{**planted, **change})
    check_same(planned, profiled(card, lambda: image(card, side * side, channels), changed))


def _smaller(call: MatmulCall, dtype: Any) -> MatmulCall:
    right = call.right
    return call.with_right(Spec(right.shape, dtype, right.layout, right.memory_config))


PRODUCT_CHANGES: dict[str, Callable[[MatmulCall, dict[str, Any]], MatmulCall]] = {
    "few cores": lambda call, change: call.but(**change),
    "weights": lambda call, change: _smaller(call, change["weights_dtype"]),
    "fidelity": lambda call, change: call.with_fidelity(change["math_fidelity"]),
    "matmul program": lambda call, change: call.but(**change),
}


@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_changed_product_is_what_the_card_plans_for_it(card: PlanningCard, kind: str) -> None:
    rows, inner, outer, planted = PRODUCTS[kind]
    before = profiled(card, lambda: image(card, rows, inner), product(card, inner, outer, **planted))
    change = dict(found(before, kind).change)
    replanner = Replanner(before)
    call = matmul_of(replanner, 0)
    assert call is not None
    planned = plan_matmul(replanner, PRODUCT_CHANGES[kind](call, change))
    changed = product(card, inner, outer, **{**planted, **change})
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
