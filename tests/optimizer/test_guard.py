# SPDX-License-Identifier: Apache-2.0
"""The guard: what it accepts, on one output and on several, and what it never accepts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch

from tests.optimizer.small_model import ENTRY, NAME, PLANTED, small_reference
from tt_cnn import ttnn
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.accuracy import NOT_FINITE, batch_size_for_accuracy, named_outputs, precision_part
from tt_cnn.optimizer.guard import PccGuard
from tt_cnn.optimizer.unseen import verify_whole

pytestmark = pytest.mark.usefixtures("small_model")
START = Assignment()
NOISY = Assignment({"layer": {"noise": 1.0}})


class Fake:
    """Outputs are the expected ones plus so much noise as the assignment has for them."""

    def __init__(self, noise: Mapping[str, Mapping[str, float]]) -> None:
        self.noise = noise
        """By the assignment's name, for each output."""
        self.runs = 0

    def relevant(self, assignment: Assignment) -> Assignment:
        return assignment

    def expected(self, images: torch.Tensor) -> Mapping[str, torch.Tensor]:
        return {output: images * (i + 1.0) for i, output in enumerate(self.noise["start"])}

    def run(self, assignment: Assignment, images: torch.Tensor) -> Mapping[str, torch.Tensor]:
        self.runs += 1
        added = self.noise["noisy" if assignment else "start"]
        noise = torch.randn(images.shape, generator=torch.Generator().manual_seed(1))
        return {output: value + noise * added[output] for output, value in self.expected(images).items()}


def images(seed: int = 0) -> torch.Tensor:
    return torch.randn(1, 3, 32, 32, generator=torch.Generator().manual_seed(100 + seed))


def test_an_output_over_the_minimum_is_accepted_though_it_is_worse_than_the_start() -> None:
    guard = PccGuard(Fake({"start": {"mask": 0.0}, "noisy": {"mask": 0.1}}), [images()])
    verdict = guard.accepts(NOISY)
    assert verdict.accepted
    assert 0.99 < verdict.pcc["mask"] < 0.999


def test_each_output_is_judged_apart() -> None:
    guard = PccGuard(Fake({"start": {"boxes": 0.0, "scores": 0.0}, "noisy": {"boxes": 0.0, "scores": 0.8}}), [images()])
    verdict = guard.accepts(NOISY)
    assert not verdict.accepted
    assert verdict.pcc["boxes"] == 1.0
    assert verdict.pcc["scores"] < 0.99
    assert "scores" in verdict.failed


def test_outputs_may_have_minima_of_their_own() -> None:
    noise = {"start": {"boxes": 0.0, "scores": 0.0}, "noisy": {"boxes": 0.0, "scores": 0.8}}
    for scores, accepted in ((0.9, True), (0.95, False)):
        guard = PccGuard(Fake(noise), [images()], min_pcc={"scores": scores})
        assert guard.accepts(NOISY).accepted is accepted
        assert guard.floors(guard.inputs[0]) == {"boxes": 0.99, "scores": scores}


@pytest.mark.parametrize(("noise", "accepted"), [(0.29, True), (0.3, True), (0.31, False)])
def test_a_start_under_the_minimum_may_not_become_worse_and_may_stay(noise: float, accepted: bool) -> None:
    guard = PccGuard(Fake({"start": {"mask": 0.3}, "noisy": {"mask": noise}}), [images()])
    assert guard.accepts(START).accepted
    assert guard.accepts(START).pcc["mask"] < 0.99
    assert guard.accepts(NOISY).accepted is accepted


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("start", [0.0, float("nan")])
def test_what_is_not_finite_is_never_accepted(value: float, start: float) -> None:
    guard = PccGuard(Fake({"start": {"mask": start}, "noisy": {"mask": value}}), [images()], min_pcc=-1.0)
    verdict = guard.accepts(NOISY)
    assert not verdict.accepted
    assert verdict.pcc == {"mask": NOT_FINITE}


def test_one_nan_is_enough() -> None:
    class OneNan(Fake):
        def run(self, assignment: Assignment, images: torch.Tensor) -> Mapping[str, torch.Tensor]:
            values = {output: value.clone() for output, value in super().run(assignment, images).items()}
            values["mask"][0, 0, 0, 0] = float("nan")
            return values

    assert not PccGuard(OneNan({"start": {"mask": 0.0}}), [images()], min_pcc=0.5).accepts(START).accepted


def test_a_second_question_is_answered_from_memory() -> None:
    model = Fake({"start": {"mask": 0.0}, "noisy": {"mask": 0.1}})
    guard = PccGuard(model, [images(), images(1)])
    guard.accepts(NOISY)
    before = model.runs
    guard.accepts(NOISY)
    guard.slack(NOISY)
    assert model.runs == before == 4


def test_inputs_of_another_kind_are_judged_by_their_own_floor() -> None:
    """On the calibration input the start is good; on the unseen one, a hundredth as large, all is noise."""
    guard = PccGuard(Fake({"start": {"mask": 0.001}, "noisy": {"mask": 0.002}}), [images()], unseen=[images(1) / 100])
    assert guard.accepts(NOISY).accepted
    verdict = guard.verify(NOISY)
    assert not verdict.accepted
    assert "under" in verdict.failed
    assert guard.verify(START).accepted


def test_no_inputs_are_refused() -> None:
    with pytest.raises(ValueError, match="inputs is empty"):
        PccGuard(Fake({"start": {"mask": 0.0}}), [])


def test_a_detector_with_one_tensor_has_boxes_and_scores_apart() -> None:
    from tt_cnn.models import model_entry

    together = torch.arange(2 * 84 * 5.0).reshape(2, 84, 5)
    found = named_outputs(model_entry("yolov8s"), ("predictions",), (together,))
    assert {name: tuple(value.shape) for name, value in found.items()} == {
        "predictions.boxes": (2, 4, 5),
        "predictions.scores": (2, 80, 5),
    }
    assert list(named_outputs(ENTRY, ("left", "right"), (together, together))) == ["left", "right"]


def test_only_settings_of_precision_go_to_another_batch_size() -> None:
    assert batch_size_for_accuracy(ENTRY, 2) == 1
    whole = Assignment(
        {"first": {"math_fidelity": ttnn.MathFidelity.LoFi, "deallocate_activation": True}, "gone": {"x": 1}}
    )
    assert precision_part(whole, {"first": None}) == Assignment({"first": {"math_fidelity": ttnn.MathFidelity.LoFi}})  # type: ignore[dict-item]


def test_a_model_is_configured_again_where_it_differs_and_comes_back_to_its_own_values() -> None:
    lofi = Assignment({"second": {"math_fidelity": ttnn.MathFidelity.LoFi}})
    with PccGuard.for_model(NAME, card="n150", reference=small_reference()) as guard:
        model, inputs = guard.model, guard.inputs[0]
        own = model.run(START, inputs)
        untouched = model.layers["third"].weight  # type: ignore[attr-defined]
        lower = model.run(lofi, inputs)
        assert model.layers["third"].weight is untouched  # type: ignore[attr-defined]
        again = model.run(START, inputs)
    assert all(torch.equal(own[name], again[name]) for name in ("left", "right"))
    assert not torch.equal(own["left"], lower["left"])


def test_exact_numerics_can_judge_the_result() -> None:
    options = {"card": "n150", "batch_size": 2, "reference": small_reference(planted=True)}
    verdict = verify_whole(NAME, Assignment({"left": {"weights_dtype": ttnn.bfloat8_b}}), "exact", **options)
    assert verdict.accepted
    assert 0.99 < min(verdict.pcc.values()) < 1.0
    lowered = Assignment({PLANTED: {"weights_dtype": ttnn.bfloat4_b}})
    assert not verify_whole(NAME, lowered, "exact", **options).accepted


class _Fixed:
    """A model whose outputs have a given PCC with the reference's: 1, and less under assignments by their number."""

    def __init__(self, *correlations: float) -> None:
        self.correlations = correlations
        self.expected_values = torch.randn(20_000, generator=torch.Generator().manual_seed(0))
        self.noise = torch.randn(20_000, generator=torch.Generator().manual_seed(1))

    def relevant(self, assignment: Assignment) -> Assignment:
        return assignment

    def expected(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"out": self.expected_values}

    def run(self, assignment: Assignment, images: torch.Tensor) -> dict[str, torch.Tensor]:
        wanted = self.correlations[len(assignment)]
        return {"out": wanted * self.expected_values + (1 - wanted**2) ** 0.5 * self.noise}


@pytest.mark.parametrize(
    ("start", "found", "accepts", "verifies"),
    [(0.9, 0.899, False, True), (0.9, 0.88, False, False), (0.999, 0.9895, False, False), (0.999, 0.992, True, True)],
)
def test_rounding_in_other_places_may_cost_a_little_on_unseen_inputs(
    start: float, found: float, accepts: bool, verifies: bool
) -> None:
    """A twentieth of what the start loses, and nothing where the start reaches 0.99."""
    images = [torch.zeros(1)], [torch.ones(1)]
    guard = PccGuard(_Fixed(start, found), *images, 0.99, Assignment())
    other = Assignment({"layer": {"packer_l1_acc": True}})
    assert guard.accepts(other).accepted is accepts
    assert guard.verify(other).accepted is verifies


def test_weights_follow_another_form_of_the_input() -> None:
    """A first convolution's weights are prepared for as many channels as its input is padded to."""
    padded = Assignment({"picture": {"form": "pad", "padded_channels": 16}})
    with PccGuard.for_model("mobilenetv2", card="n150") as guard:
        images = guard.inputs[0]
        before = guard.measure(Assignment(), images)
        after = guard.measure(padded, images)
    with PccGuard.for_model("mobilenetv2", card="n150") as fresh:
        assert after == fresh.measure(padded, fresh.inputs[0])
    assert after["logits"] == pytest.approx(before["logits"], abs=1e-3)
