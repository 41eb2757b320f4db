# SPDX-License-Identifier: Apache-2.0
"""Actors and whole nodes are killed in the midst of a job: nothing is lost, nothing comes twice, nothing differs."""

from __future__ import annotations

import io
import os
import random
import signal
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from PIL import Image
from pyarrow import parquet

from tests.distributed.conftest import STORE_BYTES
from tests.evaluation.stand_ins import SEGMENTER
from tt_cnn.distributed.cluster import CARD, connected
from tt_cnn.distributed.predicting import PredictionJob, opened, prediction_job
from tt_cnn.distributed.sources import Source, pictures_of
from tt_cnn.models import register

MODEL = "tests.evaluation.stand_ins:SEGMENTER"
OPTIONS = {"card": None, "executor": "trace", "precision": "tuned", "resolution": (64, 64)}
SHORT, LONG, ROUNDS = 200, 2000, 10
Rows = dict[str, dict[str, Any]]


@dataclass
class Nodes:
    """A head without cards, and two nodes with one each."""

    cluster: Any
    workers: list[Any] = field(default_factory=list)

    def fill_up(self) -> None:
        while len(self.workers) < 2:
            self.workers.append(self.cluster.add_node(num_cpus=1, resources={CARD: 1}, object_store_memory=STORE_BYTES))

    def kill_actor(self) -> None:
        """The one that has worked most, with kill -9."""
        os.kill(max((actor for node in self.workers for actor in _actors(node)), key=_worked), signal.SIGKILL)

    def kill_node(self) -> None:
        """All processes of the node whose actor has worked most, with kill -9."""
        node = max(self.workers, key=lambda each: max(map(_worked, _actors(each)), default=0))
        self.workers.remove(node)
        raylet = _raylet(node)
        for process in [raylet, *_children(raylet)]:
            os.kill(process, signal.SIGKILL)
        self.cluster.remove_node(node, allow_graceful=False)


def _actors(node: Any) -> list[int]:
    return [each for each in _children(_raylet(node)) if b"CardActor" in _command(each)]


def _worked(process: int) -> int:
    """Ticks of the processor in its own code."""
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11])


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _children(parent: int) -> list[int]:
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdecimal():
            try:
                status = (each / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            if int(status[1]) == parent:
                found.append(int(each.name))
    return found


def _command(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    try:
        cluster.add_node(num_cpus=0, object_store_memory=STORE_BYTES, include_dashboard=False)
        yield Nodes(cluster)
    finally:
        cluster.shutdown()


def pictures(count: int, folder: Path) -> list[Source]:
    """Noise of 64x64, in a Parquet file."""
    generator = np.random.default_rng(7)
    content = []
    for _ in range(count):
        file = io.BytesIO()
        Image.fromarray(generator.integers(0, 255, (64, 64, 3), np.uint8)).save(file, "bmp")
        content.append(file.getvalue())
    parquet.write_table(pyarrow.table({"image": content}), folder / "images.parquet", row_group_size=100)
    return pictures_of(folder / "images.parquet")


def in_one_process(job: PredictionJob) -> Rows:
    """What the same work gives without Ray."""
    with opened(**job.work.arguments) as run:
        size = job.work.task_items
        parts = [run(list(job.sources[start : start + size])) for start in range(0, len(job.sources), size)]
    return {row["image"]: row for part in parts for row in part}


def survives(nodes: Nodes, sources: list[Source], output: Path, right: Rows, kill: str, after: int) -> None:
    nodes.fill_up()
    job = prediction_job(MODEL, None, OPTIONS, sources, output)
    done, lost = 0, []

    def kill_in_the_midst(pictures: int) -> None:
        nonlocal done
        done += pictures
        if done == after:
            nodes.kill_actor() if kill == "actor" else nodes.kill_node()

    with connected(nodes.cluster.address) as cluster:
        assert cluster.cards >= 2  # a node that was killed just now may still be counted
        job.run(cluster, progress=kill_in_the_midst, lost=lost.append)
    assert job.finish() == [] and done == len(sources)
    assert lost, "what was killed had nothing to do"
    rows = list(job.folder.rows())
    assert len(rows) == len(sources)
    assert {row["image"]: row for row in rows} == right


@pytest.mark.parametrize("kill", ["actor", "node"])
def test_a_job_survives_a_kill(nodes: Nodes, tmp_path: Path, kill: str) -> None:
    register(SEGMENTER)
    sources = pictures(SHORT, tmp_path)
    right = in_one_process(prediction_job(MODEL, None, OPTIONS, sources, tmp_path / "right"))
    survives(nodes, sources, tmp_path / "out", right, kill, after=SHORT // 4)


@pytest.mark.long
@pytest.mark.parametrize("kill", ["actor", "node"])
def test_a_long_job_survives_ten_kills(nodes: Nodes, tmp_path: Path, kill: str) -> None:
    register(SEGMENTER)
    sources = pictures(LONG, tmp_path)
    right = in_one_process(prediction_job(MODEL, None, OPTIONS, sources, tmp_path / "right"))
    moments = random.Random(22)
    for number in range(ROUNDS):
        survives(nodes, sources, tmp_path / f"out{number}", right, kill, after=moments.randrange(100, LONG - 400))
