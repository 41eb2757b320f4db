# SPDX-License-Identifier: Apache-2.0
"""Two trees of this project side by side: replays of each model, in turns, each tree in a process of its own.

    python benchmarks/speed.py --against ../old-tree [--models ...] [--rounds 15]
    OMP_NUM_THREADS=1 python benchmarks/speed.py --against ../old-tree --clock processor

Prints the time of the other tree over this one's for `native` and `device` numerics: 0.97 is 3 % slower. Where others
compute on the machine too, the processor's time of one thread says more than the time on the wall. Two processes of one
tree differ by 3 % and more, by the pages of memory that they were given: `--launches` starts both again so often.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from asked import Asked, answer

HERE = Path(__file__).resolve().parents[1]
SLOWER = 0.97
CLOCKS = {"wall": time.perf_counter, "processor": time.process_time}
NUMERICS = ("native", "device")


class Tree(Asked):
    """A process that runs one model from one tree, on request."""

    def __init__(self, root: Path, model: str, numerics: str, engine: str, clock: str) -> None:
        environment = os.environ | {"PYTHONPATH": str(root / "src"), "TT_CNN_CACHE": str(root / "out" / "speed-cache")}
        super().__init__(Path(__file__), [model, numerics, engine, clock], environment, root)

    def seconds(self, pictures: int) -> float:
        return float(self.ask(pictures)["seconds"])


def _started(other: Path, model: str, numerics: str, engine: str, clock: str, other_first: bool) -> tuple[Tree, Tree]:
    """The other tree and this one."""
    roots = (other, HERE) if other_first else (HERE, other)
    trees = {root: Tree(root, model, numerics, engine, clock) for root in roots}
    return trees[other], trees[HERE]


def _in_turns(other: Tree, this: Tree, rounds: int, pictures: int) -> list[tuple[float, float]]:
    times = []
    for number in range(rounds):
        order = (other, this) if number % 2 else (this, other)
        found = {id(tree): tree.seconds(pictures) for tree in order}
        times.append((found[id(other)], found[id(this)]))
    return times


def compare(
    other: Path, models: Sequence[str], rounds: int, pictures: int, engine: str, clock: str, launches: int
) -> bool:
    """Print the ratios; whether no model is slower than is allowed."""
    print("| model | numerics | engine | other ms | this ms | other / this |\n|---|---|---|---|---|---|")
    kept = True
    for model in models:
        for numerics in NUMERICS:
            times: list[tuple[float, float]] = []
            for launch in range(launches):
                pair = _started(other, model, numerics, engine, clock, launch % 2 == 0)
                try:
                    times += _in_turns(*pair, rounds, pictures)
                finally:
                    for tree in pair:
                        tree.close()
            ratio = statistics.median(a / b for a, b in times)
            kept &= ratio >= SLOWER
            old, new = (statistics.median(column) * 1e3 for column in zip(*times, strict=True))
            print(
                f"| {model} | {numerics} | {pair[1].answer['engine']} | {old:.1f} | {new:.1f} | {ratio:.3f} |",
                flush=True,
            )
    return kept


def serve(model: str, numerics: str, engine: str, clock: str) -> None:
    """Run as many images as each line of the input says, and tell how long each took."""
    from tt_cnn.bench import VirtualCard
    from tt_cnn.models import create_reference, model_entry

    example = model_entry(model).example_input().bfloat16().float()
    card = VirtualCard(model, create_reference(model), example, numerics=numerics, engine=engine)
    answer({"engine": ", ".join(dict.fromkeys(part.engine for part in card.parts))})
    for line in sys.stdin:
        start = CLOCKS[clock]()
        card.run([example] * int(line))
        answer({"seconds": (CLOCKS[clock]() - start) / int(line)})
    card.close()


if __name__ == "__main__":
    serve(*sys.argv[1:])
