# SPDX-License-Identifier: Apache-2.0
"""Items through actors: each once, whatever dies on the way."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from tt_cnn.distributed.cluster import Cluster, ClusterUnusable, connected
from tt_cnn.distributed.operator import ActorsLost, Work, WorkFailed, map_on_cards

WORKS = "tests.distributed.works"


@pytest.fixture
def cluster(address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    monkeypatch.setenv("TT_CNN_CARD", "p150")
    with connected(address) as found:
        yield found


def test_every_item_comes_once_from_several_actors(cluster: Cluster) -> None:
    assert (cluster.cards, cluster.cores, cluster.nodes) == (2, 2, 1)
    items = {number: number + 100 for number in range(0, 300, 3)}
    found = list(map_on_cards(cluster, Work(f"{WORKS}:squares", {"seconds": 0.05}), items))
    assert {number: value for number, (value, _) in found} == {n: item**2 for n, item in items.items()}
    assert len(found) == len(items) and len({process for _, (_, process) in found}) == 2
    assert list(map_on_cards(cluster, Work(f"{WORKS}:squares"), {})) == []


def test_actors_that_die_are_started_again_and_their_items_done(cluster: Cluster, tmp_path: Path) -> None:
    lost: list[int] = []
    work = Work(f"{WORKS}:dying", {"marks": str(tmp_path), "times": 2}, batch=3)
    found = list(map_on_cards(cluster, work, {n: n for n in range(100)}, lost=lost.append))
    assert sorted(found) == [(n, n * n) for n in range(100)]
    assert len(list(tmp_path.iterdir())) >= 2 and sum(lost) >= work.task_items == 9


def test_actors_that_always_die_end_it(cluster: Cluster, tmp_path: Path) -> None:
    work = Work(f"{WORKS}:dying", {"marks": str(tmp_path), "times": 1000})
    with pytest.raises(ActorsLost, match="4 items are left"):
        list(map_on_cards(cluster, work, {n: n for n in range(4)}, actors=1))


def test_faults_of_the_work_end_it(cluster: Cluster) -> None:
    with pytest.raises(WorkFailed, match=r"(?s)ArithmeticError: 13 has no square.*works.py"):
        list(map_on_cards(cluster, Work(f"{WORKS}:squares"), {n: n for n in range(30)}))
    with pytest.raises(WorkFailed, match=r"an actor cannot open its work: no weights here$"):
        list(map_on_cards(cluster, Work(f"{WORKS}:refusing"), {0: 0}))


def test_actors_have_the_users_environment_and_threads(cluster: Cluster) -> None:
    work = Work(f"{WORKS}:surroundings", threads=2)
    found = dict(map_on_cards(cluster, work, {0: "TT_CNN_CARD", 1: "threads"}))
    assert found == {0: "p150", 1: "2"}


def test_no_more_actors_than_cards_and_cores(cluster: Cluster) -> None:
    assert (cluster.actors(None), cluster.actors(1), cluster.actors(None, threads=2)) == (2, 1, 1)
    with pytest.raises(ClusterUnusable, match=r"--actors is 3; .* for 2 \(2 tt_card, 2 cores, 1 for each actor\)"):
        cluster.actors(3)
    with pytest.raises(ClusterUnusable, match="has 2 cores, and an actor is to have 3"):
        cluster.actors(None, threads=3)
    with pytest.raises(ClusterUnusable, match="connected to a cluster of Ray's already"), connected():
        raise AssertionError


WITHOUT_CARDS = """
import ray
from tt_cnn.distributed import cluster

declared, cluster.CARD = cluster.CARD, "other_card"
with cluster.connected("local", cards=1, cores=1) as found:
    assert (found.cards, found.cores, found.address) == (1, 1, "local")
    cluster.CARD = declared
    try:
        cluster._found(ray, "local")
    except cluster.ClusterUnusable as error:
        print(error)
assert not ray.is_initialized()
"""


def test_a_cluster_without_cards_says_how_to_declare_them() -> None:
    """In a process of its own: the end of a local Ray ends what the same process started before it, too."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_CARDS], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert """ray start --resources='{"tt_card": 1}'""" in done.stdout


def test_an_address_without_a_cluster_is_named() -> None:
    with pytest.raises(ClusterUnusable, match=r"no cluster of Ray's at 127\.0\.0\.1:9: ."), connected("127.0.0.1:9"):
        raise AssertionError
    assert not ray.is_initialized()
