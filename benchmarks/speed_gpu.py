"""Replays of UNet, YOLOv4 and ResNet50 on a GPU beside torch eager, torch's CUDA graph and torch.compile.

    python benchmarks/speed.py --device cuda [--models ...] [--batches 1,8] [--peers eager,graph] [--check] [--write]

All subjects compute with 16 bits, channels last, with the same weights, batch norms folded; times are the device's for
one batch that is already there. Ours is the trace of the model on the virtual card, behind its two-queue pipeline, with
the copies of its input and outputs; streamed are host tensors through that pipeline. Where a model has no such batch on
the card, ours is the graph of the PyTorch reference, from pinned memory to pinned memory. That graph is measured for
all in bfloat16 too; a replay by itself takes float16 where its values leave room. Peers are in bfloat16.
torch.compile takes minutes: it is measured in processes of its own when `--peers reduce-overhead,max-autotune` asks
for it, and kept in `benchmarks/results/speed_gpu_peers.json`.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.optimization import fuse

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tt_cnn.bench import VirtualCard  # noqa: E402
from tt_cnn.models import create_reference, model_entry  # noqa: E402
from tt_cnn.testing.pcc import comp_pcc  # noqa: E402
from tt_cnn.virtual.engines.replay.capture import graph_of  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
MODELS, BATCHES = ("vanilla_unet", "yolov4", "resnet50"), (1, 8)
COMPILED = ("reduce-overhead", "max-autotune")
EACH, MEAN, PCC, OVERLAPPED, COMPILE, AGAIN = 1.0, 1.3, 0.999, 0.95, 60.0, 5.0
Outputs = list[torch.Tensor]


def reference(model: str) -> nn.Module:
    """With batch norms folded, and nothing done in place."""
    module: nn.Module = fuse(create_reference(model).eval())
    for one in module.modules():
        if hasattr(one, "inplace"):
            one.inplace = False
    return module


def outputs_of(module: Callable[[torch.Tensor], Any], x: torch.Tensor) -> Outputs:
    result = module(x)
    return [result] if isinstance(result, torch.Tensor) else list(result)


def seconds(call: Callable[[], Any], calls: int = 20, rounds: int = 7) -> float:
    """The median over rounds of a call among `calls`, as the device sees it."""
    for _ in range(5):
        call()
    times = []
    for _ in range(rounds):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        for _ in range(calls):
            call()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / 1e3 / calls)
    return statistics.median(times)


def worst_pcc(expected: Outputs, found: Outputs) -> float:
    return min(float(comp_pcc(a, b.float().cpu())[1]) for a, b in zip(expected, found, strict=True))


class Case:
    def __init__(self, model: str, batch: int) -> None:
        self.model, self.batch = model, batch
        self.module = reference(model)
        self.example = (
            model_entry(model).example_input(batch_size=batch).bfloat16().float()
        )  # as the card's input holds it

    @property
    def name(self) -> str:
        return f"{self.model} x{self.batch}"

    def half(self) -> tuple[nn.Module, torch.Tensor]:
        module: Any = copy.deepcopy(self.module).cuda().bfloat16()
        x = self.example.cuda().bfloat16().contiguous(memory_format=torch.channels_last)
        return module.to(memory_format=torch.channels_last), x

    def expected(self, x: torch.Tensor | None = None) -> Outputs:
        x = self.example if x is None else x
        with torch.no_grad():
            previous = torch.backends.cudnn.allow_tf32
            torch.backends.cudnn.allow_tf32 = False
            try:
                return [y.cpu() for y in outputs_of(copy.deepcopy(self.module).cuda(), x.cuda())]
            finally:
                torch.backends.cudnn.allow_tf32 = previous


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
            inputs = [torch.rand_like(one) for one in host.program.inputs]
            called, alone = seconds(lambda: host(inputs)), seconds(host.graph.replay)
        source = card.model.to_host_input(case.example)
        throughput = min(_streaming(card.pipeline, source) for _ in range(5))
        return {
            "of": "the card",
            "parts": [part.engine for part in card.parts],
            "dtype": str(host.program.dtype).removeprefix("torch."),
            "seconds": called,
            "graph": alone,
            "pcc": min(worst_pcc(expected, first), worst_pcc(case.expected(other), mirrored)),
            "repeats": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
            "compile": card.compile_seconds,
            "overlapped": called / throughput,
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
        "dtype": str(host.program.dtype).removeprefix("torch."),
        "seconds": called,
        "graph": seconds(host.graph.replay),
        "pcc": worst_pcc(expected, first),
        "repeats": all(torch.equal(a, b) for a, b in zip(first, second, strict=True)),
        "compile": compile_seconds,
        "overlapped": called / streamed(host, case.example),
    }


def streamed(host: Any, example: torch.Tensor, pictures: int = 100) -> float:
    """Seconds a batch from pinned memory to pinned memory: three streams, two places for each input and output."""
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


# --- peers -------------------------------------------------------------------------------------------------------


def eager(case: Case) -> tuple[Callable[[], Any], Callable[[], Outputs]]:
    module, x = case.half()
    return lambda: module(x), lambda: outputs_of(module, x)


def graphed(case: Case) -> tuple[Callable[[], Any], Callable[[], Outputs]]:
    module, x = case.half()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            module(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = outputs_of(module, x)

    def outputs() -> Outputs:
        graph.replay()
        return found

    return graph.replay, outputs


def compiled(case: Case, mode: str) -> tuple[Callable[[], Any], Callable[[], Outputs]]:
    import torch._inductor.config as settings

    settings.freezing = True
    module, x = case.half()
    function = torch.compile(module, mode=mode)
    for _ in range(4):
        function(x)
    torch.cuda.synchronize()
    return lambda: function(x), lambda: outputs_of(function, x)


PEERS = {"eager": eager, "graph": graphed}


def peer(case: Case, name: str, expected: Outputs, ready: Callable[[], None] = lambda: None) -> dict[str, Any]:
    torch.backends.cudnn.benchmark = True
    with torch.no_grad():
        start = time.perf_counter()
        call, outputs = compiled(case, name) if name in COMPILED else PEERS[name](case)
        spent = time.perf_counter() - start
        ready()
        return {"seconds": seconds(call), "pcc": worst_pcc(expected, outputs()), "compile": spent}


def peer_process(case: Case, name: str, folder: Path) -> None:
    """Compile, say so, and measure when told to: nobody else uses the GPU then."""
    file = folder / f"{case.model}-{case.batch}-{name}"

    def ready() -> None:
        file.with_suffix(".ready").touch()
        while not file.with_suffix(".go").exists():
            time.sleep(0.05)

    file.with_suffix(".json").write_text(json.dumps(peer(case, name, case.expected(), ready)))


def compiled_peers(wanted: Sequence[tuple[str, int, str]], folder: Path, limit: float) -> dict[str, dict[str, Any]]:
    """All compile at the same time, and are measured one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {one: folder / "-".join(map(str, one)) for one in wanted}
    processes = {
        one: subprocess.Popen([sys.executable, __file__, "--one", ",".join(map(str, one)), "--folder", str(folder)])
        for one in wanted
    }
    end = time.monotonic() + limit
    while time.monotonic() < end and not all(
        files[one].with_suffix(".ready").exists() or processes[one].poll() is not None for one in wanted
    ):
        time.sleep(0.2)
    for one, process in processes.items():
        if not files[one].with_suffix(".ready").exists():
            process.kill()
            print(f"{one}: not compiled within {limit:.0f} s", file=sys.stderr, flush=True)
    found: dict[str, dict[str, Any]] = {}
    for (model, batch, name), process in processes.items():
        file = files[model, batch, name]
        if file.with_suffix(".ready").exists():
            file.with_suffix(".go").touch()
            process.wait()
            if file.with_suffix(".json").exists():
                found.setdefault(f"{model} x{batch}", {})[name] = json.loads(file.with_suffix(".json").read_text())
    return found


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
    told = [
        f"| model | {' | '.join(names)} (ms) | fastest torch.compile / ours | ours is | "
        "PCC ours, reference bfloat16, eager | same bits | streamed / device | compile s, again |",
        f"|{'---|' * (len(names) + 7)}",
    ]
    over = ratios(rows)
    for name, row in rows.items():
        times = [f"{row[one]['seconds'] * 1e3:.3f}" if one in row else "" for one in names]
        own = row["ours"]
        near = ", ".join(f"{row[one]['pcc']:.5f}" for one in ("ours", "reference bfloat16", "eager") if one in row)
        told.append(
            f"| {name} | {' | '.join(times)} | {over.get(name, math.nan):.2f} | of {own['of']}, {own['dtype']} | "
            f"{near} | {'yes' if own['repeats'] else 'no'} | {own['overlapped']:.2f} | {own['compile']:.1f}"
            + (f", {own['again']:.1f} |" if "again" in own else " |")
        )
    if over:
        told += ["", f"geometric mean over the fastest torch.compile: {mean(list(over.values())):.3f}"]
        half = ratios({n: row for n, row in rows.items() if "reference bfloat16" in row}, "reference bfloat16")
        if half:
            told[-1] += f", of the reference's graph in bfloat16 {mean(list(half.values())):.3f}"
    return told


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
    parser.add_argument("--peers", default="eager,graph")
    parser.add_argument("--limit", type=float, default=240.0, help="seconds that torch.compile may take")
    parser.add_argument("--check", action="store_true", help="exit 1 where a ratio is missed")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/speed_gpu.md and the peers")
    parser.add_argument("--folder", type=Path, default=Path("/tmp/speed_gpu"), help="where processes meet")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here")
    if options.one:
        model, batch, name = options.one.split(",")
        peer_process(Case(model, int(batch)), name, options.folder)
        return
    names = [one for one in options.peers.split(",") if one]
    cases = [(model, int(batch)) for model in options.models.split(",") for batch in options.batches.split(",")]
    rows: dict[str, dict[str, Any]] = {}
    for model, batch in cases:
        case = Case(model, batch)
        expected = case.expected()
        row = rows.setdefault(case.name, {})
        if batch in model_entry(model).batch_sizes:
            row["ours"] = of_the_card(case, expected)
            row["ours"]["again"] = compiled_again(case)
        row["reference"] = of_the_reference(case, expected, None)
        row.setdefault("ours", row["reference"])
        row["reference bfloat16"] = of_the_reference(case, expected, torch.bfloat16)
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
    print("\n".join(lines))
    if options.write:
        kept_file.write_text(json.dumps(kept, indent=1) + "\n")
        (RESULTS / "speed_gpu.md").write_text("\n".join(["# Replays on a GPU", "", *lines, ""]))
    missed = misses(rows)
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    if options.check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
