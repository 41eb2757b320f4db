# SPDX-License-Identifier: Apache-2.0
"""What `tt-cnn optimize --ray` gains: candidates per second with actors that plan ahead, and without.

    python benchmarks/planning_ray.py [MODEL] [--candidates 500] [--actors 2] [--runs 3]

The same search, with `--candidates`, with and without in turn, each in a process of its own, with one thread; both must
give the same journal. The start of the actors (Ray, Python, imports) is told apart. Values are not compared with
PyTorch, so that planning is nearly all there is. Nothing is measured on a card.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

import torch

from tt_cnn.distributed.cluster import connected
from tt_cnn.models.registry import model_entry
from tt_cnn.optimizer.journal_file import attempt_data
from tt_cnn.optimizer.planners import planners
from tt_cnn.optimizer.planning_actor import PlannedTask
from tt_cnn.optimizer.run import optimize

CARD = "n150"


@dataclass(frozen=True)
class Run:
    per_second: float
    kept: int
    journal: list[dict[str, Any]]
    """Without times."""
    busy_seconds: float
    """Of the search's own process: with cores for all, a search cannot be quicker."""
    taken: int = 0
    """Plans of actors that the search used."""
    start_seconds: float = 0.0


def run(model: str, candidates: int, actors: int) -> Run:
    """One search; without actors where there are to be none."""
    torch.set_num_threads(1)
    began = time.monotonic()
    with ExitStack() as ends:
        pool = None
        if actors:
            cluster = ends.enter_context(connected("local", cores=actors, cards=actors))
            task = PlannedTask(model, CARD, model_entry(model).resolution)
            pool = ends.enter_context(planners(cluster, task, actors=actors))
            pool.wait_until_started()
        started = time.monotonic() - began
        busy = time.process_time()
        result = optimize(model, card=CARD, candidates=candidates, seed=1, helpers=pool)
        busy = time.process_time() - busy
    journal = [{**attempt_data(attempt), "seconds": 0.0} for attempt in result.journal.attempts]
    taken = 0 if pool is None else pool.taken
    return Run(result.planned / result.seconds, len(result.kept), journal, busy, taken, started)


def run_apart(model: str, candidates: int, actors: int) -> Run:
    """In a fresh process: what one search leaves behind makes the next one quicker."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as processes:
        return processes.submit(run, model, candidates, actors).result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="yolov4")
    parser.add_argument("--candidates", type=int, default=500)
    parser.add_argument("--actors", type=int, default=2)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    alone, helped = [], []
    for number in range(1, chosen.runs + 1):
        alone.append(run_apart(chosen.model, chosen.candidates, 0))
        helped.append(run_apart(chosen.model, chosen.candidates, chosen.actors))
        assert helped[-1].journal == alone[-1].journal, "the search went another way"
        with_actors, without = helped[-1], alone[-1]
        print(
            f"run {number}: {without.per_second:.1f} candidates per second alone, {with_actors.per_second:.1f} with "
            f"{chosen.actors} actors, which planned {with_actors.taken}; to start them took "
            f"{with_actors.start_seconds:.1f} s; the search itself was busy for {without.busy_seconds:.1f} and "
            f"{with_actors.busy_seconds:.1f} s",
            flush=True,
        )
    own, others = (median(each.per_second for each in runs) for runs in (alone, helped))
    print(
        f"{chosen.model}, {len(alone[0].journal)} attempts, {alone[0].kept} kept, "
        f"{len(os.sched_getaffinity(0))} cores: medians {own:.1f} and {others:.1f} per second, "
        f"{others / own:.2f} times as many"
    )


if __name__ == "__main__":
    main()
