# SPDX-License-Identifier: Apache-2.0
"""Replays of the shipped models on a GPU beside torch eager, torch's CUDA graph and torch.compile.

    python benchmarks/speed.py --device cuda [--models ...] [--batches 1,8] [--subjects ours,reference,fp8]
        [--peers eager,graph] [--check] [--write]

All subjects compute with 16 bits, channels last, with the same weights, batch norms folded; times are the device's for
one batch that is already there. Ours is the trace of the model on the virtual card, behind its two-queue pipeline, with
the copies of its input and outputs; streamed are host tensors through that pipeline. Where a model has no such batch on
the card, ours is the graph of the PyTorch reference, from pinned memory to pinned memory. That graph is measured for
all in bfloat16 too; a replay by itself takes float16 where its values leave room. Peers are in bfloat16.
torch.compile takes minutes: it is measured in processes of its own when `--peers reduce-overhead,max-autotune` asks
for it, and kept in `benchmarks/results/speed_gpu_peers.json`. The subject `fp8` is the same with `precision="fp8"`,
given in a table of its own; 1.6 times the fastest torch.compile is hoped for there, but nothing is missed by less.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from speed_gpu_case import ROOT, Case, Outputs, outputs_of, seconds, worst_pcc
from speed_gpu_fp8 import in_8_bits
from speed_gpu_fp8 import table as table_of_8_bits
from speed_gpu_peers import COMPILED, compiled_peers, peer

from tt_cnn.bench import VirtualCard
from tt_cnn.models import create_reference, model_entry
from tt_cnn.virtual.engines.replay.capture import graph_of

RESULTS = ROOT / "benchmarks" / "results"
STREAMS = 15
"""Of 300 pictures each. Who else is on the machine may hold up its host for tenths of a second: the quickest counts."""
MODELS, BATCHES = ("vanilla_unet", "yolov4", "resnet50", "mobilenetv2", "yolov8s"), (1, 8)
EACH, MEAN, PCC, OVERLAPPED, COMPILE, AGAIN = 1.0, 1.3, 0.999, 0.98, 12.0, 5.0


# --- ours --------------------------------------------------------------------------------------------------------


def of_the_card(case: Case, expected: Outputs) -> dict[str, Any]:
    """As a user runs it: the model on the virtual card, its trace replayed by the pipeline with two queues."""
    card = VirtualCard(case.model, create_reference(case.model), case.example, engine="cuda")
    try:
        other = case.example.flip(-1)
        first, mirrored, second = card.run([case.example, other, case.example])
        (trace,) = card.device.traces.values()
        (host,) = trace.replay.graphs
        with torch.inference_mode():
            inputs = [torch.rand_like(one) for one in host.launches.inputs]
            called, alone = seconds(lambda: host(inputs)), seconds(host.graph.replay)
        source = card.model.to_host_input(case.example)
        times = sorted(_streaming(card.pipeline, source) for _ in range(STREAMS))
        return {
            "of": "the card",
            "parts": [part.engine for part in card.parts],
            "dtype": str(host.launches.dtype).removeprefix("torch."),
            "seconds": called,
            "graph": alone,
            "pcc": min(worst_pcc(expected, first), worst_pcc(case.expected(other), mirrored)),
            "repeats": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
            "compile": card.compile_seconds,
            "overlapped": called / times[0],
            "overlapped median": called / statistics.median(times),
        }
    finally:
        card.close()


def compiled_again(case: Case) -> float:
    """Seconds, with what the first time has left in the caches."""
    card = VirtualCard(case.model, create_reference(case.model), case.example, engine="cuda")
    card.close()
    return card.compile_seconds


def _streaming(pipeline: Any, source: Any, pictures: int = 300) -> float:
    start = time.perf_counter()
    for _ in pipeline.stream([source] * pictures):
        pass
    return (time.perf_counter() - start) / pictures


def of_the_reference(case: Case, expected: Outputs, dtype: torch.dtype | None) -> dict[str, Any]:
    from tt_cnn.virtual.engines.replay.cuda.host import CudaGraph

    nodes = graph_of(lambda x: outputs_of(case.module, x), [case.example])
    x = case.example.cuda()
    start = time.perf_counter()
    host = CudaGraph(nodes, [x], dtype)
    compile_seconds = time.perf_counter() - start
    first, second = host([x]), host([x])
    called = seconds(lambda: host([x]))
    return {
        "of": "the reference",
        "dtype": str(host.launches.dtype).removeprefix("torch."),
        "seconds": called,
        "graph": seconds(host.graph.replay),
        "pcc": worst_pcc(expected, first),
        "repeats": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        "compile": compile_seconds,
        "overlapped": called / streamed(host, case.example),
    }


def streamed(host: Any, example: torch.Tensor, pictures: int = 100) -> float:
    """Seconds per batch from pinned memory to pinned memory: three streams, two places for each input and output."""
    upload, compute, download = (torch.cuda.Stream() for _ in range(3))
    source = example.pin_memory()
    places = [torch.empty_like(example, device="cuda") for _ in range(2)]
    targets = [[torch.empty_like(y, device="cpu").pin_memory() for y in host([places[0]])] for _ in range(2)]
    free, here, done, read = ([torch.cuda.Event() for _ in range(2)] for _ in range(4))
    for number in range(10 + pictures):
        if number == 10:
            torch.cuda.synchronize()
            start = time.perf_counter()
        i = number % 2
        with torch.cuda.stream(upload):
            upload.wait_event(free[i])
            places[i].copy_(source, non_blocking=True)
            here[i].record()
        with torch.cuda.stream(compute):
            compute.wait_event(here[i])
            results = host([places[i]])
            free[i].record()
            done[i].record()
        with torch.cuda.stream(download):
            download.wait_event(done[i])
            for target, one in zip(targets[i], results, strict=True):
                one.record_stream(download)
                target.copy_(one, non_blocking=True)
            read[i].record()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / pictures


# --- the table ---------------------------------------------------------------------------------------------------


def fastest_compiled(row: dict[str, Any]) -> float | None:
    return min((row[name]["seconds"] for name in COMPILED if name in row), default=None)


def ratios(rows: dict[str, dict[str, Any]], key: str = "ours") -> dict[str, float]:
    """How many times as long the better of torch.compile's modes takes."""
    return {n: best / row[key]["seconds"] for n, row in rows.items() if (best := fastest_compiled(row)) is not None}


def mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def table(rows: dict[str, dict[str, Any]]) -> list[str]:
    names = ("ours", "reference", "reference bfloat16", "eager", "graph", *COMPILED)
    lines = [
        f"| model | {' | '.join(names)} (ms) | fastest torch.compile / ours | ours is | "
        "PCC ours, reference bfloat16, eager | same bits | streamed / device | compile s, again |",
        f"|{'---|' * (len(names) + 7)}",
    ]
    over = ratios(rows)
    for name, row in rows.items():
        times = [f"{row[one]['seconds'] * 1e3:.3f}" if one in row else "" for one in names]
        own = row["ours"]
        near = ", ".join(f"{row[one]['pcc']:.5f}" for one in ("ours", "reference bfloat16", "eager") if one in row)
        lines.append(
            f"| {name} | {' | '.join(times)} | {over.get(name, math.nan):.2f} | of {own['of']}, {own['dtype']} | "
            f"{near} | {'yes' if own['repeats'] else 'no'} | {own['overlapped']:.2f} | {own['compile']:.1f}"
            + (f", {own['again']:.1f} |" if "again" in own else " |")
        )
    if over:
        lines += ["", f"geometric mean over the fastest torch.compile: {mean(list(over.values())):.3f}"]
        half = ratios({n: row for n, row in rows.items() if "reference bfloat16" in row}, "reference bfloat16")
        if half:
            lines[-1] += f", of the reference's graph in bfloat16 {mean(list(half.values())):.3f}"
    return lines


def misses(rows: dict[str, dict[str, Any]]) -> list[str]:
    found = []
    over = ratios(rows)
    for name, row in rows.items():
        own = row["ours"]
        for what, value, least in (
            ("of torch.compile's speed", over.get(name, math.nan), EACH),
            ("PCC", own["pcc"], PCC),
            ("of the device's throughput, streamed", own["overlapped"], OVERLAPPED),
        ):
            if not value >= least:
                found.append(f"{name}: {value:.4f} {what}; at least {least} is wanted")
        if not own["repeats"]:
            found.append(f"{name}: repeated replays differ")
        if any(part != "cuda" for part in own.get("parts", ())):
            found.append(f"{name}: the trace is not compiled as a whole, its parts run on {', '.join(own['parts'])}")
        if own["compile"] > COMPILE:
            found.append(f"{name}: compiled in {own['compile']:.1f} s; {COMPILE} s are wanted")
        if own.get("again", 0.0) > AGAIN:
            found.append(f"{name}: compiled again in {own['again']:.1f} s; {AGAIN} s are wanted")
    if over and mean(list(over.values())) < MEAN:
        found.append(f"geometric mean {mean(list(over.values())):.2f}; at least {MEAN} is wanted")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)))
    parser.add_argument("--subjects", default="ours,reference,fp8")
    parser.add_argument("--peers", default="eager,graph")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds that torch.compile may take")
    parser.add_argument("--check", action="store_true", help="exit 1 where a ratio is missed")
    parser.add_argument(
        "--write", action="store_true", help="add the table to benchmarks/results/speed_gpu.md, keep the peers"
    )
    meeting = Path(tempfile.gettempdir()) / "speed_gpu"
    parser.add_argument("--folder", type=Path, default=meeting, help="where processes meet")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here")
    names, subjects = [one for one in options.peers.split(",") if one], options.subjects.split(",")
    cases = [(model, int(batch)) for model in options.models.split(",") for batch in options.batches.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    for model, batch in cases:
        case = Case(model, batch)
        expected = case.expected()
        row = rows.setdefault(case.name, {})
        on_card = batch in model_entry(model).batch_sizes
        if on_card:
            row["ours"] = of_the_card(case, expected)
            row["ours"]["again"] = compiled_again(case)
        if "reference" in subjects or not on_card:
            row["reference"] = of_the_reference(case, expected, None)
            row.setdefault("ours", row["reference"])
        if "reference" in subjects:
            row["reference bfloat16"] = of_the_reference(case, expected, torch.bfloat16)
        if "fp8" in subjects:
            row["fp8"] = in_8_bits(case, expected)
        for name in names:
            if name not in COMPILED:
                try:
                    row[name] = peer(case, name, expected)
                except RuntimeError as error:
                    print(f"{case.name}, {name}: {str(error).splitlines()[0]}", file=sys.stderr, flush=True)
        print(case.name, json.dumps(row), flush=True)
    kept_file = RESULTS / "speed_gpu_peers.json"
    kept = json.loads(kept_file.read_text()) if kept_file.exists() else {}
    slow = [(model, batch, name) for model, batch in cases for name in names if name in COMPILED]
    for name, found in compiled_peers(slow, options.folder, options.limit).items() if slow else ():
        kept.setdefault(name, {}).update(found)
    for name, row in rows.items():
        row.update(kept.get(name, {}))
    device = f"{date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}"
    command = f"`python {' '.join(sys.argv)}`"
    lines = [f"## {device}", "", command, "", *table(rows)]
    if "fp8" in subjects:
        lines += ["", *table_of_8_bits(rows, ratios(rows, "fp8"))]
    print("\n".join(lines))
    if options.write:
        kept_file.write_text(json.dumps(kept, indent=1) + "\n")
        with (RESULTS / "speed_gpu.md").open("a") as file:
            file.write("\n".join(["", *lines, ""]))
    missed = misses(rows)
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
