# SPDX-License-Identifier: Apache-2.0
"""The driver: rounds, budget, Ctrl-C, faults, frozen layers, resuming, verification."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.optimizer.fake_steps import Blocks
from tt_cnn.builder import HeightShardedStrategyConfiguration
from tt_cnn.builder.overrides import Assignment
from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.journal_file import JournalWriter, attempt_data, read_journal
from tt_cnn.optimizer.networks import Networks, Rebuilt
from tt_cnn.optimizer.prediction import Refusal, planned_network
from tt_cnn.optimizer.run import optimize
from tt_cnn.optimizer.search import Search, Verdict
from tt_cnn.optimizer.settings import settings_in_force

MODEL = "vanilla_unet"

pytestmark = pytest.mark.usefixtures("fake_steps")


def without_times(attempts: list[Attempt]) -> list[dict[str, Any]]:
    return [{**attempt_data(attempt), "seconds": 0.0} for attempt in attempts]


def test_steps_run_until_nothing_gets_better() -> None:
    start = {"decoder1.conv2": {"sharding_strategy": HeightShardedStrategyConfiguration(act_block_h_override=32)}}
    result = optimize(MODEL, steps=["fake_blocks"], start=start, only=["decoder1*"], budget_seconds=None)
    assert result.end == "converged" and result.verification.holds
    assert result.value_after < result.value_before and result.times_better > 1.01
    blocks = [step for step in result.steps if step.name == "fake_blocks"]
    assert blocks[-1].kept == 0 and blocks[-2].kept > 0, "a round without gain ends it"
    assert {name for attempt in result.journal.attempts for name in attempt.changes} == {
        name for name in result.configurations if name.startswith("decoder1.conv")
    }
    with planned_network(MODEL, "n150", config=result.after.assignment) as built:
        predicted = built.predict(Assignment())
    assert not isinstance(predicted, Refusal)
    assert predicted.device_ns == result.after.prediction.device_ns == result.kept[-1].device_ns


def test_the_same_candidates_and_seed_give_the_same_journal() -> None:
    first, again, other = (
        optimize(MODEL, steps=["fake_chance", "fake_blocks"], candidates=40, seed=seed) for seed in (1, 1, 2)
    )
    assert first.planned == 40 and first.end == "budget spent"
    assert without_times(first.journal.attempts) == without_times(again.journal.attempts)
    assert without_times(first.journal.attempts) != without_times(other.journal.attempts)
    assert first.after.assignment == again.after.assignment


def test_every_step_gets_a_share_of_the_budget() -> None:
    result = optimize(MODEL, steps=["fake_chance", "fake_blocks"], candidates=200)
    first_round = {step.name: step for step in result.steps if step.round == 1}
    assert set(first_round) == {"fake_chance", "fake_blocks"}
    assert all(40 <= step.attempts <= 60 for step in first_round.values()), first_round
    assert all(step.cut_off for step in first_round.values())


def test_a_time_budget_is_kept() -> None:
    result = optimize(MODEL, steps=["fake_chance"], budget_seconds=1.0)
    assert result.end == "budget spent" and 0.9 < result.seconds < 4.0


def test_ctrl_c_keeps_the_best_so_far() -> None:
    result = optimize(MODEL, steps=["fake_blocks", "fake_ctrl_c"], budget_seconds=None)
    assert result.end == "interrupted"
    assert result.journal.kept and result.verification.holds
    assert result.after.prediction.device_ns == result.journal.kept[-1].device_ns < result.before.prediction.device_ns


def test_a_faulty_step_is_named_and_loses_nothing() -> None:
    result = optimize(MODEL, steps=["fake_faulty", "fake_blocks"], budget_seconds=None, only=["encoder*"])
    (fault,) = result.faults
    assert fault.name == "fake_faulty" and "ZeroDivisionError: planted" in fault.error and "fake_steps" in fault.error
    assert sum(step.name == "fake_faulty" for step in result.steps) == 1, "it is not run again"
    assert result.end == "converged" and result.kept and result.verification.holds


def test_frozen_layers_are_not_touched() -> None:
    result = optimize(MODEL, steps=["fake_blocks"], freeze=["encoder*", "bottleneck*"], candidates=60)
    assert result.after.assignment and not [n for n in result.after.assignment if n.startswith(("encoder", "bottle"))]
    stolen = optimize(MODEL, steps=["fake_thief"], freeze=["encoder1.conv1"], candidates=5)
    assert "proposed a change of 'encoder1.conv1', which is frozen" in stolen.faults[0].error
    assert not stolen.after.assignment


def test_without_a_guard_no_value_changes() -> None:
    result = optimize(MODEL, steps=["fake_lossy"], candidates=40)
    assert not result.journal.kept
    refused = next(attempt for attempt in result.journal.attempts if attempt.outcome == "not accurate")
    assert "they are not compared" in refused.reason and not result.after.assignment and result.pcc is None


class _Strict:
    """Accepts all candidates, and of results only those with few changes."""

    def accepts(self, assignment: Assignment) -> Verdict:
        return Verdict(True, {"mask": 0.999})

    def verify(self, assignment: Assignment) -> Verdict:
        few = len(assignment) <= 2
        return Verdict(few, {"mask": 0.995 if few else 0.5}, "" if few else "mask")


def test_a_result_that_fails_the_last_look_is_taken_back() -> None:
    result = optimize(MODEL, steps=["fake_lossy"], candidates=40, guard=_Strict())
    kept = len(result.journal.kept)
    assert kept > 2 and not result.verification.holds
    assert len(result.after.assignment) == 2 and result.verification.given_up == kept - 2 == kept - len(result.kept)
    assert result.pcc == {"mask": 0.995}


def test_a_time_that_is_not_found_again_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    true_rebuilt = Networks.rebuilt
    with planned_network(MODEL, "n150") as network:
        own = settings_in_force(network.configurations, Assignment())

    def slower(self: Networks, assignment: Assignment, deployment: Any) -> Rebuilt | Refusal:
        found = true_rebuilt(self, assignment, deployment)
        assert isinstance(found, Rebuilt)
        changed = [n for n in assignment if dict(assignment[n]) != own[n]]
        if len(changed) > 1:
            wrong = replace(found.prediction, device_ns=1.5 * found.prediction.device_ns)
            return replace(found, prediction=wrong)
        return found

    monkeypatch.setattr(Networks, "rebuilt", slower)
    result = optimize(MODEL, steps=["fake_blocks"], candidates=60)
    assert not result.verification.holds and "where the search saw" in result.verification.said
    assert len(result.after.assignment) == 1 and result.verification.given_up > 0


def test_a_search_that_was_killed_goes_on(tmp_path: Path) -> None:
    """The journal of a search that ended in its midst, as a kill leaves it: no result, and not the last attempts."""
    writer = JournalWriter(lambda: tmp_path, ["test"])
    whole = optimize(MODEL, steps=["fake_blocks"], budget_seconds=None, only=["decoder*"], watcher=writer)
    kept = whole.journal.kept[0].number
    stored = read_journal(tmp_path)
    assert stored.state == "running"
    half = replace(stored, attempts=tuple(whole.journal.attempts[: kept + 3]))
    resumed = optimize(MODEL, steps=["fake_blocks"], budget_seconds=None, only=["decoder*"], resume=half)
    seen = resumed.journal.attempts
    assert resumed.resumed == kept + 3 and without_times(seen[: kept + 3]) == without_times(list(half.attempts))
    assert resumed.before.assignment == whole.before.assignment
    assert resumed.value_after == whole.value_after and resumed.after.assignment == whole.after.assignment
    assert resumed.planned == whole.planned - (kept + 3), "what was tried is not tried again"


def test_what_was_resumed_must_be_the_same_task(tmp_path: Path) -> None:
    writer = JournalWriter(lambda: tmp_path, ["test"])
    writer.finished(optimize(MODEL, steps=["fake_blocks"], candidates=3, watcher=writer))
    stored = read_journal(tmp_path)
    with pytest.raises(ValueError, match="is of card n150, and p150 is asked for"):
        optimize(MODEL, card="p150", steps=["fake_blocks"], candidates=3, resume=stored)
    worse = [replace(attempt, outcome="kept", value=1.0) for attempt in stored.attempts if attempt.value][:1]
    with pytest.raises(ValueError, match="another version wrote it"):
        optimize(MODEL, steps=[], candidates=3, resume=replace(stored, attempts=tuple(worse)))


def test_what_was_tried_before_costs_nothing() -> None:
    with planned_network(MODEL, "n150") as network:
        search = Search.starting_from(network)
        best = None
        while search.best is not best:
            best = search.best
            Blocks().run(search)
        spent, attempts = search.budget.spent, len(search.journal.attempts)
        assert spent == attempts > 50
        Blocks().run(search)
        assert search.budget.spent == spent and len(search.journal.attempts) == attempts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"goal": "beauty"}, "goal is 'beauty'; it must be one of latency"),
        ({"steps": ["nonsense"]}, "there is no step 'nonsense'; there are .*batch"),
        ({"only": ["nowhere*"]}, r"only is 'nowhere\*'; it fits no layer"),
        ({"freeze": ["nowhere"]}, "freeze is 'nowhere'; it fits no layer"),
        ({"min_pcc": 2.0}, "min_pcc is 2.0"),
        ({"candidates": -1}, "candidates is -1"),
        ({"start": {"nowhere": {"dtype": 1}}}, "settings of 'nowhere'"),
        ({"start": {"pool1": {"nothing": 1}}}, "has no setting 'nothing'"),
        ({"card": "n1"}, "the virtual cards are"),
        ({"batch_size": 3}, "batch_size is 3"),
    ],
)
def test_mistakes_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        optimize(MODEL, **{"candidates": 1, **options})
