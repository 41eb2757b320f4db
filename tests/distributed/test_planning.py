# SPDX-License-Identifier: Apache-2.0
"""Candidates planned ahead by actors: their plans are the search's own, and the result is the same."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import ray
from typer.testing import CliRunner

from tt_cnn.builder.overrides import Assignment
from tt_cnn.cli import app
from tt_cnn.distributed.cluster import Cluster, connected
from tt_cnn.models.registry import model_entry
from tt_cnn.optimizer.candidates import convolution_candidates
from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.journal_file import attempt_data
from tt_cnn.optimizer.networks import Networks
from tt_cnn.optimizer.planners import Planners, planners
from tt_cnn.optimizer.planning_actor import PlannedTask
from tt_cnn.optimizer.prediction import NetworkForm, Prediction, Refusal
from tt_cnn.optimizer.result import OptimizationResult
from tt_cnn.optimizer.result_folder import config_data, config_diff
from tt_cnn.optimizer.rounds import Watcher
from tt_cnn.optimizer.run import optimize

MODEL = "vanilla_unet"
TASK = PlannedTask(MODEL, "n150", model_entry(MODEL).resolution)
FORM = NetworkForm(1, 1)
CANDIDATES = 80
LAYERS = ("encoder1*", "skip*", "decoder4*")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def cluster(address: str) -> Iterator[Cluster]:
    with connected(address) as found:
        yield found


@pytest.fixture(scope="module")
def plain() -> OptimizationResult:
    return optimize(MODEL, candidates=CANDIDATES, seed=3, only=LAYERS)


def searched(pool: Planners, watcher: Watcher | None = None) -> OptimizationResult:
    pool.wait_until_started()
    return optimize(MODEL, candidates=CANDIDATES, seed=3, only=LAYERS, helpers=pool, watcher=watcher)


def assert_equal(result: OptimizationResult, plain: OptimizationResult) -> None:
    own, others = (
        [{**attempt_data(attempt), "seconds": 0.0} for attempt in each.journal.attempts] for each in (result, plain)
    )
    assert own == others and len(own) > CANDIDATES / 2
    assert config_data(result) == config_data(plain) and config_diff(result) == config_diff(plain)


class At(Watcher):
    """Does something behind an attempt."""

    def __init__(self, number: int, does: Callable[[], None]) -> None:
        self.number, self.does = number, does

    def attempted(self, attempt: Attempt) -> None:
        if attempt.number == self.number:
            self.does()


def test_plans_of_actors_are_the_searchs_own(cluster: Cluster) -> None:
    with Networks(MODEL, "n150") as networks, planners(cluster, TASK, actors=2) as pool:
        network = networks.network()
        ways = [
            Assignment({name: settings})
            for name in ("encoder1.conv1", "decoder1.conv2")
            for settings in convolution_candidates(network.configurations[name], network.card)  # type: ignore[arg-type]
        ]
        own = {way: network.predict(way) for way in ways}
        pool.join(FORM, lambda: network.predict(Assignment()))
        while not all(actor.ready for actor in pool._actors):
            pool._collect(wait=True)
        pool.expect(FORM, own)
        found = {way: pool.planned(FORM, way) for way in own}
    assert found == own and pool.taken == len(own)
    kinds = [type(each) for each in own.values()]
    assert kinds.count(Prediction) > 10 and kinds.count(Refusal) > 2
    for way, each in own.items():
        helped = found[way]
        if isinstance(each, Prediction) and isinstance(helped, Prediction):
            assert list(helped.layer_ns.items()) == list(each.layer_ns.items())


def test_the_result_is_the_same(cluster: Cluster, plain: OptimizationResult) -> None:
    with planners(cluster, TASK, actors=2) as pool:
        assert_equal(searched(pool), plain)
    assert pool.taken > 0 and pool.alive == 2 and plain.kept


def test_what_a_dead_actor_had_is_planned_elsewhere(cluster: Cluster, plain: OptimizationResult) -> None:
    lost: list[str] = []
    with planners(cluster, TASK, actors=2, lost=lost.append) as pool:
        handles = [actor.handle for actor in pool._actors]
        assert_equal(searched(pool, At(10, lambda: ray.kill(handles[0]))), plain)
        assert len(lost) == 1 and pool.alive == 1
        assert_equal(searched(pool, At(10, lambda: ray.kill(handles[1]))), plain)
    assert len(lost) == 2 and pool.alive == 0


def test_an_actor_that_plans_otherwise_is_not_believed(cluster: Cluster, plain: OptimizationResult) -> None:
    @ray.remote(num_cpus=1)
    class Other:
        def predict(self, form: NetworkForm, assignment: Assignment) -> Prediction:
            return replace(plain.before.prediction, device_ns=1.0)

    lost: list[str] = []
    pool = Planners([Other.remote()], lost.append)
    assert_equal(searched(pool), plain)
    assert pool.taken == pool.alive == 0 and "is its version another?" in lost[0]


def test_an_actor_that_cannot_open_the_model_says_why(cluster: Cluster, plain: OptimizationResult) -> None:
    lost: list[str] = []
    with planners(cluster, replace(TASK, model="nowhere:ENTRY"), actors=1, lost=lost.append) as pool:
        with pytest.raises(ray.exceptions.ActorDiedError):
            pool.wait_until_started()
        result = optimize(MODEL, candidates=CANDIDATES, seed=3, only=LAYERS, helpers=pool)
    assert_equal(result, plain)
    assert "No module named 'nowhere'" in lost[0] and pool.alive == 0


def test_ctrl_c_keeps_the_best_so_far(cluster: Cluster) -> None:
    with planners(cluster, TASK, actors=2) as pool:
        result = searched(pool, At(20, lambda: os.kill(os.getpid(), signal.SIGINT)))
    assert result.end == "interrupted" and result.verification.holds and len(result.journal.attempts) == 20


def test_the_command_writes_the_same_files(address: str, tmp_path: Path) -> None:
    def written(*more: str) -> dict[str, Any]:
        where = tmp_path / (more[0] if more else "plain")
        options = ("--candidates", "40", "--random-seed", "5", "-o", str(where), "--steps", "conv2d,memory")
        done = CliRunner().invoke(app, ["optimize", MODEL, *options, *more])
        assert done.exit_code == 0, done.output + repr(done.exception)
        attempts = json.loads((where / "journal.json").read_text())["attempts"]
        return {
            "journal": [{**attempt, "seconds": 0.0} for attempt in attempts],
            "config": (where / "config.json").read_text(),
            "diff": (where / "diff.txt").read_text(),
        }

    plain, helped = written(), written("--ray", address, "--actors", "2")
    assert helped == plain and len(plain["journal"]) > 10
    refused = CliRunner().invoke(app, ["optimize", MODEL, "--actors", "2"])
    assert refused.exit_code == 2 and "--actors belongs to --ray" in refused.output
