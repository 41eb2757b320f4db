# SPDX-License-Identifier: Apache-2.0
"""The precision step: what is lowered, what is kept and named, and what is taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from tests.optimizer.small_model import NAME, PLANTED, small_reference
from tt_cnn import ttnn
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.overrides import Assignment, with_settings
from tt_cnn.optimizer.guard import PccGuard
from tt_cnn.optimizer.moves import Losses, Move, moves_of
from tt_cnn.optimizer.prediction import Prediction, Refusal, planned_network
from tt_cnn.optimizer.search import Search, Verdict
from tt_cnn.optimizer.sensitivity import Sensitivity
from tt_cnn.optimizer.steps.precision import PrecisionStep
from tt_cnn.optimizer.unseen import moves_back, verify

pytestmark = pytest.mark.usefixtures("small_model")
LOFI, HIFI4 = ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi4
COARSE = {"math_fidelity": LOFI}


# --- a network and a guard of numbers ---------------------------------------------------------------------------------


@dataclass
class Numbers:
    """Layers that take 100 ns, and 40 in LoFi."""

    names: Sequence[str]
    refused: str = ""

    def __post_init__(self) -> None:
        self.configurations = {
            name: LinearConfiguration.with_random_weights(
                32,
                32,
                math_fidelity=HIFI4,
                weights_dtype=ttnn.bfloat4_b,
                output_dtype=ttnn.bfloat8_b,
                packer_l1_acc=True,
            )
            for name in self.names
        }

    def predict(self, assignment: Assignment) -> Prediction | Refusal:
        layers = {}
        for name, own in self.configurations.items():
            lofi = with_settings(own, assignment.get(name, {})).math_fidelity == LOFI
            if lofi and name == self.refused:
                return Refusal("does not fit", name)
            layers[name] = 40.0 if lofi else 100.0
        return Prediction(sum(layers.values()), len(layers), layers)


@dataclass
class NumbersGuard:
    """PCC falls by what each lowered layer truly costs; `estimates` is what it believes beforehand."""

    costs: Mapping[str, float]
    estimates: Mapping[str, float] = field(default_factory=dict)
    start_pcc: float = 0.999
    asked: list[Assignment] = field(default_factory=list)

    def _pcc(self, assignment: Assignment) -> float:
        lowered = [name for name, own in assignment.items() if own.get("math_fidelity") == LOFI]
        return self.start_pcc - sum(self.costs[name] for name in lowered)

    def accepts(self, assignment: Assignment) -> Verdict:
        self.asked.append(assignment)
        return Verdict(self._pcc(assignment) >= min(0.99, self.start_pcc), {"mask": self._pcc(assignment)})

    def slack(self, assignment: Assignment) -> Mapping[str, float]:
        return {"mask": self._pcc(assignment) - min(0.99, self.start_pcc)}

    def losses(
        self, assignment: Assignment, moves: Sequence[Move], between: Callable[[], None]
    ) -> Mapping[Move, Losses]:
        known = {**self.costs, **self.estimates}
        return {move: {"mask": known[move.layer] if move.value == LOFI else 1.0} for move in moves}


def lowered(search: Search) -> set[str]:
    return {name for name, own in search.best.assignment.items() if own.get("math_fidelity") == LOFI}


def chosen_by(network: Numbers, guard: NumbersGuard) -> Search:
    search = Search.starting_from(network, guard=guard)
    PrecisionStep().run(search)
    return search


def test_layers_are_lowered_as_far_as_the_guard_allows() -> None:
    search = chosen_by(Numbers("abcd"), NumbersGuard({"a": 1e-4, "b": 1e-4, "c": 0.5, "d": 1e-4}))
    assert lowered(search) == {"a", "b", "d"}
    assert search.best.device_ns == 220.0
    assert search.journal.kept[-1].words.endswith("not in c")


def test_two_that_are_fine_alone_and_not_together() -> None:
    search = chosen_by(Numbers("ab"), NumbersGuard({"a": 0.006, "b": 0.007}))
    assert lowered(search) == {"a"}


def test_a_layer_that_was_misjudged_is_found_by_halving_and_named() -> None:
    names = "abcdefgh"
    guard = NumbersGuard(dict.fromkeys(names, 1e-4) | {"f": 0.4}, estimates={"f": 1e-4})
    search = chosen_by(Numbers(names), guard)
    assert lowered(search) == set(names) - {"f"}
    failed = [attempt for attempt in search.journal.attempts if attempt.outcome == "not accurate"]
    assert failed
    assert all("f" in {n for n, own in a.changes.items() if own["math_fidelity"] == LOFI} for a in failed)


def test_estimates_that_are_too_low_by_a_factor_are_scaled() -> None:
    names = "abcdefgh"
    search = chosen_by(Numbers(names), NumbersGuard(dict.fromkeys(names, 2e-3), dict.fromkeys(names, 1e-3)))
    outcomes = [attempt.outcome for attempt in search.journal.attempts]
    assert outcomes[:2] == ["not accurate", "kept"]
    assert len(lowered(search)) == 4


def test_estimates_that_are_too_high_leave_nothing_lying() -> None:
    names = "abcdefgh"
    search = chosen_by(Numbers(names), NumbersGuard(dict.fromkeys(names, 1e-3), dict.fromkeys(names, 3e-3)))
    assert len(lowered(search)) == 8


def test_nothing_is_lowered_where_nothing_may_be_lost() -> None:
    search = chosen_by(Numbers("ab"), NumbersGuard({"a": 0.01, "b": 0.02}, start_pcc=0.98))
    assert not lowered(search)
    assert not search.journal.kept


def test_what_the_card_refuses_is_not_chosen() -> None:
    search = chosen_by(Numbers("abc", refused="b"), NumbersGuard(dict.fromkeys("abc", 1e-4)))
    assert lowered(search) == {"a", "c"}


def test_frozen_layers_stay() -> None:
    search = Search.starting_from(Numbers("ab"), guard=NumbersGuard(dict.fromkeys("ab", 1e-4)), freeze=("a",))
    PrecisionStep().run(search)
    assert lowered(search) == {"b"}


def test_without_a_guard_nothing_is_lowered() -> None:
    search = Search.starting_from(Numbers("ab"))
    PrecisionStep().run(search)
    assert search.journal.attempts == []


# --- a model on the card ----------------------------------------------------------------------------------------------


def test_a_planted_layer_is_kept_in_high_precision_and_named() -> None:
    reference = small_reference(planted=True)
    with planned_network(NAME, "n150") as network, PccGuard.for_model(NAME, card="n150", reference=reference) as guard:
        search = Search.starting_from(network, guard=guard)
        PrecisionStep().run(search)
        chosen = search.best.assignment
        planted = search.configuration(PLANTED)
        verdict = guard.verify(chosen)
    assert planted.weights_dtype == ttnn.bfloat16  # type: ignore[attr-defined]
    assert planted.output_dtype == ttnn.bfloat16  # type: ignore[attr-defined]
    assert PLANTED in search.journal.kept[-1].words.split("; not in ")[1]
    assert {own.get("weights_dtype") for name, own in chosen.items() if name != PLANTED} & {
        ttnn.bfloat8_b,
        ttnn.bfloat4_b,
    }
    assert search.best.device_ns < 0.95 * search.journal.attempts[0].best_ns
    assert verdict.accepted


def test_the_same_layer_without_the_plant_is_lowered() -> None:
    with (
        planned_network(NAME, "n150") as network,
        PccGuard.for_model(NAME, card="n150", reference=small_reference()) as guard,
    ):
        search = Search.starting_from(network, guard=guard)
        PrecisionStep().run(search)
        assert search.configuration(PLANTED).weights_dtype != ttnn.bfloat16  # type: ignore[attr-defined]


def test_estimates_order_layers_as_runs_do() -> None:
    """Each layer lowered alone to bfloat4_b weights, estimated and measured."""
    with PccGuard.for_model(NAME, card="n150", reference=small_reference()) as guard:
        model = guard.model
        moves = [
            move
            for name, own in model.configurations.items()  # type: ignore[attr-defined]
            for move in moves_of(name, own)
            if move.value == ttnn.bfloat4_b
        ]
        estimated = guard.losses(Assignment(), moves)
        start = guard.accepts(Assignment()).pcc
        for output in ("left", "right"):
            measured = {
                move: start[output] - guard.accepts(Assignment({move.layer: move.settings})).pcc[output]
                for move in moves
            }
            for move in moves:
                assert estimated[move][output] == pytest.approx(measured[move], rel=0.7, abs=2e-4)
            other = "right" if output == "left" else "left"
            assert [estimated[m][output] for m in moves if m.layer == other] == [0.0]


def test_a_layer_that_the_reference_does_not_have_is_measured_by_a_run() -> None:
    with PccGuard.for_model(NAME, card="n150", reference=small_reference()) as guard:
        sensitivity = Sensitivity(guard.model, Assignment(), guard.inputs[0])  # type: ignore[arg-type]
        assert sensitivity.unknown == []
        sensitivity.gains = {name: gain for name, gain in sensitivity.gains.items() if name != "third"}
        asked: list[Assignment] = []

        def measure(assignment: Assignment) -> Losses:
            asked.append(assignment)
            return {"left": 0.25, "right": 0.5}

        moves = [m for m in moves_of("third", guard.model.configurations["third"]) if m.value == LOFI]  # type: ignore[attr-defined]
        assert sensitivity.losses(moves, measure) == {moves[0]: {"left": 0.25, "right": 0.5}}
        assert asked == [Assignment({"third": COARSE})]


# --- unseen inputs ----------------------------------------------------------------------------------------------------


class UnseenGuard(NumbersGuard):
    """On inputs that the choice was not made on, layer `c` costs a lot."""

    start = Assignment()

    def verify(self, assignment: Assignment) -> Verdict:
        pcc = self._pcc(assignment) - (0.3 if assignment.get("c", {}).get("math_fidelity") == LOFI else 0.0)
        return Verdict(pcc >= 0.99, {"mask": pcc}, "" if pcc >= 0.99 else f"PCC of mask {pcc:.5f} under 0.99000")

    def losses(
        self, assignment: Assignment, moves: Sequence[Move], between: Callable[[], None] = lambda: None
    ) -> Mapping[Move, Losses]:
        sign = {move: -1.0 if move.raises else 1.0 for move in moves}
        found = super().losses(assignment, moves, between)
        return {
            move: {"mask": sign[move] * (self.costs[move.layer] if move.raises else loss["mask"])}
            for move, loss in found.items()
        }


def test_what_fails_on_unseen_inputs_is_taken_back_and_the_journal_says_so() -> None:
    guard = UnseenGuard({"a": 1e-4, "b": 2e-4, "c": 4e-4, "d": 3e-4})
    search = Search.starting_from(Numbers("abcd"), guard=guard)
    PrecisionStep().run(search)
    assert lowered(search) == set("abcd")
    fast = search.best.device_ns
    verdict = verify(search, guard)  # type: ignore[arg-type]
    assert verdict.accepted
    assert lowered(search) == {"a", "b", "d"}
    last = search.journal.attempts[-1]
    assert last.outcome == "kept"
    assert last.step == "verification"
    assert last.words == "back to fidelity HiFi4 in c"
    assert last.reason.startswith("on unseen inputs: PCC of mask 0.69")
    assert last.device_ns is not None
    assert last.device_ns > fast == last.best_ns


def test_taking_back_goes_on_until_it_holds() -> None:
    """The layer that matters is the one that was thought to matter least."""
    guard = UnseenGuard({"a": 4e-4, "b": 3e-4, "c": 1e-4, "d": 2e-4})
    search = Search.starting_from(Numbers("abcd"), guard=guard)
    PrecisionStep().run(search)
    assert verify(search, guard).accepted  # type: ignore[arg-type]
    assert lowered(search) == set()
    outcomes = [attempt.outcome for attempt in search.journal.attempts if attempt.step == "verification"]
    assert outcomes == ["not accurate", "not accurate", "kept"]


def test_a_result_that_holds_is_left_alone() -> None:
    guard = UnseenGuard({"a": 1e-4, "b": 1e-4})
    search = Search.starting_from(Numbers("ab"), guard=guard)
    PrecisionStep().run(search)
    before = search.best
    assert verify(search, guard).accepted  # type: ignore[arg-type]
    assert search.best is before


def test_the_way_back_has_only_what_differs() -> None:
    network = Numbers("ab")
    there = Assignment({"a": COARSE, "b": {"math_fidelity": HIFI4}})
    (move,) = moves_back(there, Assignment(), network.configurations)
    assert (move.layer, move.value, move.raises) == ("a", HIFI4, True)
