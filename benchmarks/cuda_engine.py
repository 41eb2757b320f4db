# SPDX-License-Identifier: Apache-2.0
"""The virtual card on CUDA, checked against the CPU and against recorded values of the real kernels.

    python benchmarks/cuda_engine.py [--write]

Needs torch with CUDA; nothing else that torch and NumPy do not bring. `--write` puts the table into
`benchmarks/results/cuda_engine.md`, with date and versions.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from tt_cnn.virtual import ttnn  # noqa: E402

DATA = ROOT / "tests" / "golden" / "data"
RESULTS = ROOT / "benchmarks" / "results" / "cuda_engine.md"


def element_wise_cases() -> Iterator[tuple[str, dict, list[torch.Tensor], torch.Tensor]]:
    values = np.load(DATA / "values_elementwise.npz")
    for line in (DATA / "values_elementwise.jsonl").read_text().splitlines():
        case = json.loads(line)["case"]
        inputs = [torch.from_numpy(values[k]) for k in (f"{case['id']}.in0", f"{case['id']}.in1") if k in values]
        yield case["op"], case["args"], inputs, torch.from_numpy(values[f"{case['id']}.out"])


def call(device: ttnn.MeshDevice, op: str, args: dict, inputs: list[torch.Tensor]) -> torch.Tensor:
    names = ["from"] if op == "typecast" else ["dtype", "dtype_b"]
    tensors = [
        ttnn.from_torch(x, dtype=getattr(ttnn, args[name]), layout=ttnn.TILE_LAYOUT, device=device)
        for x, name in zip(inputs, names, strict=False)
    ]
    if op == "typecast":
        result = ttnn.typecast(tensors[0], getattr(ttnn, args["to"]))
    elif op == "unary":
        result = getattr(ttnn, args["name"])(tensors[0], *args["params"])
    else:
        result = getattr(ttnn, args["name"])(*tensors)
    return ttnn.to_torch(result).float()


def recorded_values(numerics: str) -> tuple[int, int, int]:
    """(cases, equal to the CPU in every element, equal to the real kernels in every element)."""
    answers = {}
    for engine in ("cpu", "cuda"):
        with ttnn.manage_device(0, engine=engine, numerics=numerics, hazards="raise") as device:
            answers[engine] = [call(device, op, args, inputs) for op, args, inputs, _ in element_wise_cases()]
    real = [out for *_, out in element_wise_cases()]
    same = sum(torch.equal(a, b) for a, b in zip(answers["cpu"], answers["cuda"], strict=True))
    exact = sum(torch.equal(a, b) for a, b in zip(answers["cuda"], real, strict=True))
    return len(real), same, exact


class TwoQueues:
    """Queue 1 writes inputs, queue 0 replays a trace on them; events order the two."""

    def __init__(self, device: ttnn.MeshDevice, shape: tuple[int, ...]) -> None:
        self.device = device
        self.input = ttnn.allocate_tensor_on_device(shape, ttnn.bfloat16, ttnn.TILE_LAYOUT, device)
        ttnn.copy_host_to_device_tensor(self.host(torch.zeros(shape)), self.input, cq_id=0)
        self.compute(self.input)
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = self.compute(self.input)
        ttnn.end_trace_capture(device, self.trace, cq_id=0)
        self.read = ttnn.record_event(device, 0)

    @staticmethod
    def host(x: torch.Tensor) -> ttnn.Tensor:
        return ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT)

    @staticmethod
    def compute(x: ttnn.Tensor) -> ttnn.Tensor:
        return ttnn.mish(ttnn.add(ttnn.silu(x), x))

    def run(self, host: ttnn.Tensor) -> ttnn.Tensor:
        ttnn.wait_for_event(1, self.read)
        ttnn.copy_host_to_device_tensor(host, self.input, cq_id=1)
        written = ttnn.record_event(self.device, 1)
        ttnn.wait_for_event(0, written)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=False)
        result = self.output.cpu(blocking=False, cq_id=0)
        self.read = ttnn.record_event(self.device, 0)
        return result


def two_queues(engine: str, inputs: list[torch.Tensor]) -> tuple[list[torch.Tensor], float]:
    device = ttnn.open_device(device_id=0, engine=engine, num_command_queues=2, hazards="raise")
    try:
        program = TwoQueues(device, tuple(inputs[0].shape))
        hosts = [program.host(x) for x in inputs]
        start = time.perf_counter()
        outputs = [program.run(host) for host in hosts]
        ttnn.synchronize_device(device)
        seconds = time.perf_counter() - start
        return [ttnn.to_torch(o).float() for o in outputs], seconds / len(inputs)
    finally:
        ttnn.close_device(device)


def worst_pcc(expected: list[torch.Tensor], found: list[torch.Tensor]) -> float:
    pairs = (torch.stack([a.flatten(), b.flatten()]).double() for a, b in zip(expected, found, strict=True))
    return min(float(torch.corrcoef(pair)[0, 1]) for pair in pairs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/cuda_engine.md")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("torch sees no CUDA device here")
        return 1
    lines = [
        "# The virtual card on CUDA",
        "",
        f"{datetime.date.today()}, {torch.cuda.get_device_name()}, torch {torch.__version__}, "
        f"Python {platform.python_version()}; `python benchmarks/cuda_engine.py --write`",
        "",
        "| what | result |",
        "|---|---|",
    ]
    good = True
    for numerics in ("exact", "device"):
        cases, same, exact = recorded_values(numerics)
        good &= numerics == "device" or same == cases
        lines.append(f"| recorded element-wise cases, `{numerics}`: equal to the CPU engine | {same} of {cases} |")
        lines.append(f"| the same, equal to the real kernels in every element | {exact} of {cases} |")
    torch.manual_seed(0)
    inputs = [torch.randn(1, 1, 4096, 512) for _ in range(64)]
    reference = [torch.nn.functional.mish(torch.nn.functional.silu(x) + x) for x in inputs]
    for engine in ("cpu", "cuda"):
        outputs, seconds = two_queues(engine, inputs)
        pcc = worst_pcc(reference, outputs)
        good &= pcc > 0.9999
        lines.append(f"| two queues and a trace, {engine}: worst PCC against torch | {pcc:.6f} |")
        lines.append(f"| the same, time an input of 4096x512 | {seconds * 1e3:.2f} ms |")
    print("\n".join(lines))
    if options.write:
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text("\n".join(lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
