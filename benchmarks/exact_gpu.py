# SPDX-License-Identifier: Apache-2.0
"""Seconds of an image in `exact` numerics on a GPU, beside the CPU's kernels in the same run.

    python benchmarks/exact.py --device cuda [--models ...] [--threads 2] [--rounds 9] [--check] [--write FILE]

Each model runs on the virtual card command by command, as a trace (one CUDA graph of what the commands launch), and on
the CPU with `--threads` threads; all three must give the same bits. An image is in the host's memory before and its
outputs are there after. `--check` ends with status 1 where the trace is less than ten times as fast as the CPU, or a
bit differs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from speed import machine

FASTER = 10.0
WARM_UPS = 3


@dataclass(frozen=True)
class Result:
    model: str
    commands: float
    trace: float
    cpu: float
    same: bool

    @property
    def ratio(self) -> float:
        return self.cpu / self.trace

    @property
    def misses(self) -> list[str]:
        found = []
        if self.ratio < FASTER:
            found.append(f"{self.model}: {self.ratio:.1f} times as fast as the CPU; {FASTER:g} times is wanted")
        if not self.same:
            found.append(f"{self.model}: the GPU has other bits than the CPU")
        return found


def measured(model: str, rounds: int) -> Result:
    from exact import runs_of, same_bits

    commands, first = runs_of(model, "cuda", rounds, "plain", WARM_UPS)
    trace, second = runs_of(model, "cuda", rounds, "trace", WARM_UPS)
    cpu, expected = runs_of(model, "cpu", 3, "plain", 1)
    return Result(model, commands, trace, cpu, same_bits(first, expected) and same_bits(second, expected))


def lines(results: Sequence[Result], threads: int) -> list[str]:
    rows = [
        f"| model | trace s | commands s | CPU, {threads} threads, s | CPU / trace | CPU / commands | same bits |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        same = "yes" if one.same else "no"
        rows.append(
            f"| {one.model} | {one.trace:.4f} | {one.commands:.4f} | {one.cpu:.2f} | {one.ratio:.1f} | "
            f"{one.cpu / one.commands:.1f} | {same} |"
        )
    return rows


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="vanilla_unet,yolov4,resnet50")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2, help="of the CPU")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    parser.add_argument("--write", type=Path, help="add the table to a Markdown file")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    head = f"{machine(('torch', 'triton'))}; {torch.cuda.get_device_name()}"
    results = []
    for name in options.models.split(","):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results.append(measured(name, options.rounds))
    table = lines(results, options.threads)
    print("\n".join([head, "", *table]))
    if options.write is not None:
        command = f"`python {' '.join(sys.argv)}`"
        with options.write.open("a") as file:
            file.write("\n".join(["", f"## {head}", "", command, "", *table, ""]))
    missed = [miss for one in results for miss in one.misses]
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)
