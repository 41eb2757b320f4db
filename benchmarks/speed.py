# SPDX-License-Identifier: Apache-2.0
"""Replays of the shipped models beside what people use on a CPU: ratios in one run.

    python benchmarks/speed.py [--models vanilla_unet,yolov4,...] [--batch 1] [--rounds 7] [--check] [--write FILE]
    python benchmarks/speed.py --device cuda ...        on a GPU, see benchmarks/speed_gpu.py
    python benchmarks/speed.py --against TREE           beside another tree of the project: speed_trees.py

`native` float32 through the traced two-queue pipeline beside the fastest of ONNX Runtime, OpenVINO and torch.compile:
1.3 times as fast is wanted of ResNet50, 1.6 of YOLOv4, 1.1 of each other, 1.8 on the geometric mean, and 2 times torch
eager; `device` numerics at least as fast as torch eager. PCC and repeatability are checked in the same run.

The floor of a model is the time of its products alone, those of 3x3 kernels as few as Winograd leaves, at the rate that
the processor reaches in the same run. Eight bits are in benchmarks/speed_int8.py.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path

import speed_trees
import torch
from floors import products_of, products_per_second

from tt_cnn.bench import Comparison, VirtualCard, compare, create_peer
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.running import reference_outputs

MODELS = ("vanilla_unet", "yolov4", "resnet50", "mobilenetv2", "efficientnet_lite0", "yolov8s")
PEERS = ("onnxruntime", "openvino", "compile", "torch")
EAGER = "torch eager"
GOALS, EACH, MEAN = {"resnet50": 1.3, "yolov4": 1.6}, 1.1, 1.8
OVER_EAGER, DEVICE, PCC, COMPILE = 2.0, 1.0, 0.9999, 10.0


@dataclass(frozen=True)
class Result:
    model: str
    native: Comparison
    device: Comparison
    engine: str
    floor: float
    """The seconds of the products that Winograd leaves, were there nothing else to do."""

    @property
    def best(self) -> float:
        return over_fastest(self.native)

    @property
    def eager(self) -> float:
        return self.native.ratio(next(one for one in self.native.timings if one.name == EAGER))

    @property
    def faithful(self) -> float:
        return self.device.ratio(self.device.timings[1])


def over_fastest(comparison: Comparison) -> float:
    """The time of the fastest peer over ours."""
    peers = [one for one in comparison.timings[1:] if one.name != EAGER]
    return comparison.ratio(min(peers, key=lambda one: one.median))


def measured(model: str, batch: int, rounds: int, batches: int) -> Result:
    entry = model_entry(model)
    reference = create_reference(model)
    example = entry.example_input(batch_size=batch).bfloat16().float()
    expected = reference_outputs(reference, example)
    peers = [create_peer(name, reference, example) for name in PEERS]
    comparisons, engines = [], []
    for numerics, others in (("native", peers), ("device", [peer for peer in peers if peer.name == EAGER])):
        ours = VirtualCard(model, reference, example, numerics=numerics)
        try:
            comparisons.append(compare([ours, *others], expected, example, rounds=rounds, batches=batches))
            engines.append(", ".join(dict.fromkeys(part.engine for part in ours.parts)))
        finally:
            ours.close()
    floor = products_of(reference, example, winograd=True) / products_per_second("float32")
    return Result(model, *comparisons, engines[0], floor)


def mean_of(results: Sequence[Result]) -> float:
    return math.exp(sum(math.log(one.best) for one in results) / len(results))


def lines(results: Sequence[Result]) -> list[str]:
    rows = [
        "| model | subject | median ms | time / ours | PCC | same bits | compile s |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        for comparison in (one.native, one.device):
            for timing in comparison.timings:
                rows.append(
                    f"| {one.model} | {timing.name} | {timing.median * 1e3:.1f} | {comparison.ratio(timing):.2f} | "
                    f"{timing.pcc:.6f} | {'yes' if timing.repeats else 'no'} | {timing.compile_seconds:.1f} |"
                )
    rows += [
        "",
        *(f"{r.model}: {r.best:.2f} of the fastest peer, {r.eager:.2f} of torch eager, `device` {r.faithful:.2f}, "
          f"floor {r.floor * 1e3:.1f} ms (engine: {r.engine})" for r in results),
        f"geometric mean over the fastest peers: {mean_of(results):.2f}",
    ]  # fmt: skip
    return rows


def misses(results: Sequence[Result]) -> list[str]:
    found = []
    for one in results:
        for name, value, least in (
            ("the fastest peer", one.best, GOALS.get(one.model, EACH)),
            ("torch eager", one.eager, OVER_EAGER),
            ("torch eager, device numerics", one.faithful, DEVICE),
            ("PCC", one.native.ours.pcc, PCC),
        ):
            if value < least:
                found.append(f"{one.model}: {value:.4f} of {name}; at least {least} is wanted")
        if not one.native.ours.repeats:
            found.append(f"{one.model}: repeated replays differ")
        if one.native.ours.compile_seconds > COMPILE:
            found.append(f"{one.model}: compiled in {one.native.ours.compile_seconds:.1f} s; {COMPILE} s are wanted")
    mean = mean_of(results)
    if mean < MEAN:
        found.append(f"geometric mean {mean:.2f} of the fastest peers; at least {MEAN} is wanted")
    return found


def machine(names: Sequence[str] = ("torch", "onnxruntime", "openvino", "numpy")) -> str:
    """The day, the processor and the packages named."""
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    processor = platform.processor() or platform.machine()
    try:
        found = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
        processor = next(line.split(":")[1].strip() for line in found.splitlines() if line.startswith("Model name"))
    except (OSError, StopIteration):
        pass
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return f"{date.today()}, {processor}, {torch.get_num_threads()} threads, load {load}; {versions}"


def add_results(file: Path, before: str, table: Sequence[str]) -> None:
    """To a page of results: the machine, the command, the table."""
    with file.open("a", encoding="utf-8") as page:
        page.write("\n".join(["", f"## {before}", "", f"`python {' '.join(sys.argv)}`", "", *table, ""]))


def main() -> None:
    where = argparse.ArgumentParser(add_help=False)
    where.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    chosen, rest = where.parse_known_args()
    if chosen.device == "cuda":
        import speed_gpu

        return speed_gpu.main(rest)
    plain = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(parents=[where], description=__doc__, formatter_class=plain)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batch", type=int, default=1, help="images of a replay")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=2, help="replays per subject and round")
    parser.add_argument("--check", action="store_true", help="exit 1 where a ratio is missed")
    parser.add_argument("--write", type=Path, help="add the table to a Markdown file")
    parser.add_argument("--against", type=Path, metavar="TREE", help="another tree of this project, in place of peers")
    parser.add_argument("--engine", default="cpu", help="of both trees, with --against")
    parser.add_argument("--launches", type=int, default=1, help="of both trees, each with so many rounds")
    parser.add_argument("--clock", choices=speed_trees.CLOCKS, default="wall", help="with --against")
    options = parser.parse_args()
    if options.against is not None:
        kept = speed_trees.compare(
            options.against.resolve(),
            options.models.split(","),
            options.rounds,
            options.batches,
            options.engine,
            options.clock,
            options.launches,
        )
        sys.exit(int(options.check and not kept))
    before = machine()
    results = []
    for name in options.models.split(","):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results.append(measured(name, options.batch, options.rounds, options.batches))
    table = lines(results)
    print("\n".join([before, "", *table]))
    if options.write is not None:
        add_results(options.write, before, table)
    missed = misses(results)
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
