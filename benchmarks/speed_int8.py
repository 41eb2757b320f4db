# SPDX-License-Identifier: Apache-2.0
"""Replays in 8 bits beside OpenVINO in 8 bits, as NNCF quantises it after training: ratios in one run.

    pip install 'tt-cnn[benchmarks]'
    python benchmarks/speed_int8.py [--models resnet50,yolov4,...] [--rounds 7] [--check] [--write FILE]

For each model: `precision="int8"` of the traced two-queue pipeline, what NNCF makes of the same reference with 32
images of the same kind (ours learns from 4), and the reference on OpenVINO in float32. Ours must keep a PCC of 0.99
with the reference, and be 1.2 times as fast as NNCF's; that PCC is told, not asked for.

Beside each model stands its floor: the milliseconds of its products alone, at the rate at which the processor
multiplies bytes, which is measured in the same run.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from floors import products_of, products_per_second
from speed import add_results, machine
from torch import nn

from tt_cnn.bench import Comparison, Subject, VirtualCard, compare, create_peer
from tt_cnn.bench.peers import OnnxPeer, exported
from tt_cnn.models import create_reference, model_entry
from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.running import reference_outputs
from tt_cnn.virtual.engines.replay.packages import openvino_core

MODELS = ("resnet50", "vanilla_unet", "yolov4", "mobilenetv2", "efficientnet_lite0", "yolov8s")
CALIBRATED_ON = 32
"""Images that NNCF sees."""
FASTER, PCC, COMPILE = 1.2, 0.99, {"vanilla_unet": 8.0}
"""How many times as fast as NNCF's, at which PCC, and the most seconds to quantise and compile."""


@dataclass(frozen=True)
class Result:
    model: str
    comparison: Comparison
    eight_bit: str
    """What became of the layers."""
    floor: float
    """The seconds of all products in 8 bits, were there nothing else to do."""

    @property
    def faster(self) -> float:
        return self.comparison.ratio(self.comparison.timings[1])

    @property
    def misses(self) -> list[str]:
        ours, found = self.comparison.ours, []
        if self.faster < FASTER:
            found.append(f"{self.model}: {self.faster:.2f} times as fast as OpenVINO with NNCF; {FASTER} is wanted")
        if ours.pcc < PCC:
            found.append(f"{self.model}: PCC {ours.pcc:.4f}; {PCC} is wanted")
        if ours.compile_seconds > COMPILE.get(self.model, math.inf):
            found.append(
                f"{self.model}: compiled in {ours.compile_seconds:.1f} s; {COMPILE[self.model]:g} s are wanted"
            )
        return found


def nncf_peer(model: nn.Module, entry: ModelEntry, example: torch.Tensor) -> Subject:
    """OpenVINO in the precision that it chooses itself, on what NNCF's post-training quantisation gives by default."""
    core = openvino_core()  # before NNCF, which takes OpenVINO's telemetry where that is not hidden
    import nncf

    size = (example.shape[2], example.shape[3])
    start = time.perf_counter()
    images = [
        entry.example_input(batch_size=example.shape[0], resolution=size, seed=seed).bfloat16().float().numpy()
        for seed in range(1, 1 + CALIBRATED_ON)
    ]
    quantised = nncf.quantize(
        core.read_model(exported(model, example)), nncf.Dataset(images), subset_size=CALIBRATED_ON
    )
    settings = {"INFERENCE_NUM_THREADS": str(torch.get_num_threads()), "PERFORMANCE_HINT": "LATENCY"}
    request = core.compile_model(quantised, "CPU", settings).create_infer_request()

    def call(x: Any) -> list[Any]:
        results = request.infer([x], share_inputs=True, share_outputs=True)
        return [results[i] for i in range(len(results))]

    peer = OnnxPeer("OpenVINO, NNCF int8", call)
    peer.run([example])
    peer.compile_seconds = time.perf_counter() - start
    return peer


def measured(model: str, rounds: int, batches: int) -> Result:
    entry, reference = model_entry(model), create_reference(model)
    example = entry.example_input().bfloat16().float()
    expected = reference_outputs(reference, example)
    peers = [nncf_peer(reference, entry, example), create_peer("openvino", reference, example)]
    ours = VirtualCard(model, reference, example, precision="int8")
    try:
        comparison = compare([ours, *peers], expected, example, rounds=rounds, batches=batches)
        engines = ", ".join(dict.fromkeys(part.engine for part in ours.parts))
        floor = products_of(reference, example) / products_per_second("int8")
        return Result(model, comparison, f"{'; '.join(ours.eight_bit)} (engine: {engines})", floor)
    finally:
        ours.close()


def lines(results: Sequence[Result]) -> list[str]:
    rows = ["| model | subject | median ms | time / ours | PCC | compile s |", "|---|---|--:|--:|--:|--:|"]
    rows += [
        f"| {one.model} | {timing.name} | {timing.median * 1e3:.1f} | {one.comparison.ratio(timing):.2f} | "
        f"{timing.pcc:.4f} | {timing.compile_seconds:.1f} |"
        for one in results
        for timing in one.comparison.timings
    ]
    mean = statistics.geometric_mean([one.faster for one in results])
    return [
        *rows,
        "",
        *(
            f"{one.model}: {one.faster:.2f} times as fast as NNCF's int8, floor {one.floor * 1e3:.1f} ms; "
            f"{one.eight_bit}"
            for one in results
        ),
        f"geometric mean: {mean:.2f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--batches", type=int, default=2, help="images per subject and round")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    parser.add_argument("--write", type=Path, help="add the table to a Markdown file")
    options = parser.parse_args()
    before = machine(("torch", "openvino", "nncf", "numpy"))
    results = []
    for name in options.models.split(","):
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        results.append(measured(name, options.rounds, options.batches))
    table = lines(results)
    print("\n".join([before, "", *table]))
    if options.write is not None:
        add_results(options.write, before, table)
    missed = [miss for one in results for miss in one.misses]
    print("\n".join(missed), file=sys.stderr)
    sys.exit(int(options.check and bool(missed)))


if __name__ == "__main__":
    main()
