# SPDX-License-Identifier: Apache-2.0
"""How far do more actors and more nodes bring a model, and what does Ray cost?

    python benchmarks/scale.py [MODEL] [--images 320] [--actors 1 2 4] [--write] [--check]
    python benchmarks/scale.py [MODEL] --simulate [--card n150]

Images per second of `tt-cnn run --ray` with actors on one node and on as many nodes as actors, all on this machine, one
thread each, while all of them work. Ideal is one single-threaded process of the same work without Ray, measured in the
same run, times the actors up to the cores. It is measured again at the end: where that gives another rate the machine
was busy, nothing is written, and the status is 1. What as many processes without Ray reach shows how much of the
difference is the machine's. `--check` exits 1 where two actors reach less than 0.9 of ideal.

`--simulate` predicts a cluster of real cards: the rate of a card from the cost model (`tt-cnn profile`), what an
actor's thread needs to read and prepare an image, the pause between two of its tasks, and the tasks that one driver
hands out in a second as they were measured here. Nothing of that was measured on cards, and storage that gives images
fast enough is taken for granted. `--actors` without a number measures nothing else.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE)]

from scale_work import Rate, Task, predicting, rate_of  # noqa: E402

from tt_cnn.distributed.cluster import CARD, Cluster, connected  # noqa: E402
from tt_cnn.distributed.operator import Work, map_on_cards  # noqa: E402
from tt_cnn.distributed.sources import Source, pictures_of  # noqa: E402
from tt_cnn.evaluation.drawn_data import DetectionShapes  # noqa: E402
from tt_cnn.evaluation.preparation import prepare  # noqa: E402
from tt_cnn.models import model_entry  # noqa: E402

WANTED = 0.9
STORE_BYTES = 128 * 2**20
EMPTY_TASKS = 600
TASKS_FOR_PAUSES = 8
QUIET = 0.1
"""A machine that does nothing else gives the same rate before and after, but for this part of it."""
DRAWN = 16
MOST_CARDS = 1000
RESULTS = HERE / "results" / "scale.md"


@contextmanager
def nodes(count: int, cores: int) -> Iterator[Cluster]:
    """A head without cards, and nodes with so many cores and virtual cards each."""
    from ray.cluster_utils import Cluster as Machines

    machines = Machines()
    try:
        machines.add_node(num_cpus=0, object_store_memory=STORE_BYTES, include_dashboard=False)
        for _ in range(count):
            machines.add_node(num_cpus=cores, resources={CARD: cores}, object_store_memory=STORE_BYTES)
        with connected(machines.address) as cluster:
            yield cluster
    finally:
        machines.shutdown()


def on_actors(cluster: Cluster, work: Work, items: list[Any]) -> Rate:
    return rate_of({task for _, task in map_on_cards(cluster, work, dict(enumerate(items)))})


def in_processes(count: int, work: Work, items: list[Any], folder: Path) -> Rate:
    """The same tasks without Ray, each process with its share."""
    share = len(items) // count
    (folder / "work").write_bytes(pickle.dumps((dict(work.arguments), work.task_items, items[:share])))
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "scale.py"), "--process", str(folder / "work")]
    started = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    lines = [line for process in started for line in process.communicate()[0].splitlines()]
    if any(process.returncode for process in started):
        raise SystemExit("a process without Ray failed")
    return rate_of({Task(*json.loads(line)) for line in lines})


def process(file: Path) -> None:
    """One of them: a task in each line."""
    import torch

    torch.set_num_threads(1)
    arguments, size, items = pickle.loads(file.read_bytes())
    with predicting(**arguments) as run:
        for start in range(0, len(items), size):
            task = run(items[start : start + size])[0]
            print(json.dumps([task.process, task.began, task.ended, task.images]))


def work_for(model: str) -> Work:
    entry = model_entry(model)
    batch = max(entry.batch_sizes)
    options = {"card": None, "executor": "trace", "precision": "tuned", "resolution": entry.resolution}
    arguments = {"model": model, "weights": None, "threshold": None, "batch": batch, "options": options}
    return Work("scale_work:predicting", {"arguments": arguments}, batch=batch)


@contextmanager
def drawn(model: str, count: int) -> Iterator[tuple[list[Source], Path]]:
    """So many images in files, a few of them again and again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        DetectionShapes("val", size=model_entry(model).resolution, count=DRAWN).write(folder / "set")
        found = [path for path in (folder / "set").rglob("*") if path.is_dir()] or [folder / "set"]
        sources = next(pictures_of(path) for path in found if any(path.glob("*.png")))
        yield [sources[number % len(sources)] for number in range(count)], folder


@dataclass(frozen=True)
class Row:
    what: str
    actors: int
    rate: Rate
    ideal: float

    @property
    def share(self) -> float:
        return self.rate.images_per_second / self.ideal

    def cells(self) -> str:
        pause = f"{self.rate.seconds_between_tasks * 1e3:.1f}"
        return f"| {self.what} | {self.rate.images_per_second:.2f} | {self.ideal:.2f} | {self.share:.2f} | {pause} |"


def measured(model: str, images: int, counts: list[int], say: Callable[[str], None]) -> list[Row]:
    work, cores = work_for(model), len(os.sched_getaffinity(0))
    rows: list[Row] = []
    with drawn(model, images) as (items, folder):
        single = in_processes(1, work, items, folder)

        def add(what: str, actors: int, rate: Rate) -> None:
            rows.append(Row(what, actors, rate, min(actors, cores) * single.images_per_second))
            say(rows[-1].cells())

        add("1 process without Ray", 1, single)
        for count in counts:
            if count > 1:
                add(f"{count} processes without Ray", count, in_processes(count, work, items, folder))
            with nodes(1, count) as cluster:
                add(f"{count} actor{'s' * (count > 1)} on one node", count, on_actors(cluster, work, items))
            if count > 1:
                with nodes(count, 1) as cluster:
                    add(f"{count} nodes with an actor", count, on_actors(cluster, work, items))
        add("1 process without Ray, again", 1, in_processes(1, work, items, folder))
    return rows


def empty_tasks() -> Rate:
    """Tasks that do nothing, on two actors: what a driver hands out."""
    work = Work("scale_work:nothing")
    with nodes(1, 2) as cluster:
        return on_actors(cluster, work, [None] * (EMPTY_TASKS * work.task_items))


def predicted_rate(model: str, card: str, batch: int) -> float:
    """Images per second of one card, end to end."""
    command = [sys.executable, "-m", "tt_cnn.cli", "profile", model, "--card", card, "--batch", str(batch), "--json"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["fps"])


def preparing(model: str, sources: list[Source]) -> float:
    """Seconds for an image to be read and made an input, by one thread."""
    import torch

    torch.set_num_threads(1)
    began = time.perf_counter()
    for source in sources:
        prepare(model_entry(model), source.read())
    return (time.perf_counter() - began) / len(sources)


def simulated(model: str, card: str, say: Callable[[str], None]) -> list[str]:
    """Lines of a table: where more cards bring no more, since one driver hands out all tasks."""
    work, empty = work_for(model), empty_tasks()
    fps = predicted_rate(model, card, work.batch)
    with drawn(model, TASKS_FOR_PAUSES * work.task_items) as (items, _):
        host = preparing(model, items)
        with nodes(1, 1) as cluster:
            pause = on_actors(cluster, work, items).seconds_between_tasks
    lines = [
        f"{model}, {work.batch} images a batch: {fps:.0f} images per second on one {card} (predicted, end to end). "
        f"Measured here: one driver hands out {empty.tasks_per_second:.0f} tasks per second, an actor pauses "
        f"{pause * 1e3:.1f} ms between two tasks, and a thread reads and prepares an image in {host * 1e3:.1f} ms.",
        "",
        f"| images of a task | prepared by | images per second of a card | {MOST_CARDS} cards | cards from which "
        "the driver is the limit |",
        "|--:|---|--:|--:|--:|",
    ]
    for seconds, by in ((host, "the actor's thread"), (0.0, "others, in time")):
        for batches in (1, 16, 64):
            size = work.task_items * batches
            limit = empty.tasks_per_second * size
            one = 1 / (1 / fps + seconds + pause / size)
            last = math.ceil(limit / one)
            where = str(last) if last <= MOST_CARDS else f"over {MOST_CARDS}"
            lines.append(f"| {size} | {by} | {one:.0f} | {min(limit, MOST_CARDS * one):.0f} | {where} |")
    for line in lines:
        say(line)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", default="resnet50")
    parser.add_argument("--images", type=int, default=320, help="of each run [320]")
    parser.add_argument("--actors", type=int, nargs="*", default=[1, 2, 4], metavar="N")
    parser.add_argument("--simulate", action="store_true", help="predict a cluster of real cards")
    parser.add_argument("--card", default="n150", help="with --simulate [n150]")
    parser.add_argument(
        "--check", action="store_true", help=f"exit 1 where two actors reach less than {WANTED} of ideal"
    )
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name}")
    parser.add_argument("--process", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.process is not None:
        process(options.process)
        return 0
    head = ["| | images per second | ideal | of ideal | ms between tasks |", "|---|--:|--:|--:|--:|"]
    rows: list[Row] = []
    if options.actors:
        print("\n".join(head), flush=True)
        rows = measured(options.model, options.images, options.actors, lambda line: print(line, flush=True))
    simulation = simulated(options.model, options.card, print) if options.simulate else []
    if options.write and not (rows and abs(rows[-1].share - 1) > QUIET):
        about = f"{options.model}, {datetime.date.today()}, {len(os.sched_getaffinity(0))} cores, one thread an actor."
        lines = ["# Actors and nodes on one machine", "", about, "", *head, *(row.cells() for row in rows)]
        lines += ["", "## A cluster of real cards, predicted", "", *simulation] if simulation else []
        RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if rows and abs(rows[-1].share - 1) > QUIET:
        print("the machine was busy with something else: these shares of ideal count for nothing")
        return 1
    missed = [row.what for row in rows if row.actors == 2 and "Ray" not in row.what and row.share < WANTED]
    for what in missed if options.check else ():
        print(f"{what}: less than {WANTED} of ideal")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
