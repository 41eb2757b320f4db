# SPDX-License-Identifier: Apache-2.0
"""Seconds of an image in `exact` numerics, beside the Python path that defines it.

    python benchmarks/exact.py [--models vanilla_unet,yolov4,resnet50] [--beside ...] [--check] [--write FILE]
    python benchmarks/exact.py --device cuda ...        on a GPU, see benchmarks/exact_gpu.py

Each model runs on the virtual card with the compiled kernels and, for the ratio, with `engine="torch"`, which has none;
both must give the same bits. Torch takes minutes for UNet: `--beside` names the models for which it runs. With
`--check`, a goal that is missed or another bit ends with status 1.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from speed import add_results, machine

from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import RunningModel, running_model

GOALS = {"vanilla_unet": 15.0, "yolov4": 8.0, "resnet50": 1.5}
"""Seconds for an image."""


@dataclass(frozen=True)
class Result:
    model: str
    seconds: float
    python: float | None
    """Seconds without compiled kernels, where that was measured."""
    same: bool

    @property
    def misses(self) -> list[str]:
        found = []
        if self.seconds > GOALS[self.model]:
            found.append(f"{self.model}: {self.seconds:.2f} s; at most {GOALS[self.model]:g} s are wanted")
        if not self.same:
            found.append(f"{self.model}: the compiled kernels have other bits than torch")
        return found


def timed(running: RunningModel, image: torch.Tensor) -> tuple[float, list[torch.Tensor]]:
    start = time.perf_counter()
    (outputs,) = running.run([image])
    return time.perf_counter() - start, list(outputs)


def runs_of(
    model: str, engine: str, rounds: int, executor: str = "plain", warm_ups: int = 0
) -> tuple[float, list[torch.Tensor]]:
    """The median of the seconds, and what came out."""
    entry, image = model_entry(model), model_entry(model).example_input()
    with running_model(entry, create_reference(model), executor=executor, numerics="exact", engine=engine) as running:
        runs = [timed(running, image) for _ in range(warm_ups + rounds)]
    return statistics.median(seconds for seconds, _ in runs[warm_ups:]), runs[-1][1]


def measured(model: str, rounds: int, beside: bool) -> Result:
    seconds, outputs = runs_of(model, "cpu", rounds)
    if not beside:
        return Result(model, seconds, None, True)
    python, expected = runs_of(model, "torch", 1)
    return Result(model, seconds, python, same_bits(outputs, expected))


def same_bits(outputs: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    pairs = zip(outputs, expected, strict=True)
    return all(torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)) for a, b in pairs)


def lines(results: Sequence[Result]) -> list[str]:
    rows = ["| model | seconds | goal | Python path s | ratio | same bits |", "|---|---|---|---|---|---|"]
    for one in results:
        beside = "not run | | |"
        if one.python is not None:
            ratio = one.python / one.seconds
            beside = f"{one.python:.1f} | {ratio:.1f} | {'yes' if one.same else 'no'} |"
        rows.append(f"| {one.model} | {one.seconds:.2f} | {GOALS[one.model]:g} | {beside}")
    return rows


def main() -> None:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    chosen, rest = where.parse_known_args()
    if chosen.device == "cuda":
        import exact_gpu

        return exact_gpu.main(rest)
    parser = argparse.ArgumentParser(
        parents=[where], description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(GOALS))
    parser.add_argument("--beside", default=",".join(GOALS), help="models that run on the Python path too")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    parser.add_argument("--write", type=Path, help="add the table to a Markdown file")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    before = machine(("torch",))
    results = []
    for name in options.models.split(","):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results.append(measured(name, options.rounds, name in options.beside.split(",")))
    table = lines(results)
    print("\n".join([before, "", *table]))
    if options.write is not None:
        add_results(options.write, before, table)
    missed = [miss for one in results for miss in one.misses]
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
