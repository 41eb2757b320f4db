# SPDX-License-Identifier: Apache-2.0
"""What people run on a GPU: torch eager, torch's CUDA graph, and torch.compile, measured in processes of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from speed_gpu_case import Case, Outputs, outputs_of, seconds, worst_pcc

COMPILED = ("reduce-overhead", "max-autotune")


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
    """Compile, say so, and measure on request: nobody else uses the GPU then."""
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
        one: subprocess.Popen([sys.executable, __file__, ",".join(map(str, one)), str(folder)]) for one in wanted
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


if __name__ == "__main__":  # MODEL,BATCH,NAME FOLDER
    model, batch, name = sys.argv[1].split(",")
    peer_process(Case(model, int(batch)), name, Path(sys.argv[2]))
