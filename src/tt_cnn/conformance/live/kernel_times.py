# SPDX-License-Identifier: Apache-2.0
"""Kernel times of a card as rows of a corpus of times, from the sheet that tt-metal's profiler writes.

`python -m tt_cnn.conformance.live.kernel_times ops_perf_results.csv steps.json.gz times.jsonl.gz`

A row is a call of one device operation: its arguments as the sheet tells them, its kernel duration (median, least and
most of all times it ran), and, where the recorded steps of the same program are given, its full specs. The sheet's
columns and the form of its cells are tt-metal's (`tools/tracy/process_ops_logs.py`).
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from tt_cnn.conformance.live.graph_reading import operation_name
from tt_cnn.conformance.live.recording import LiveStep, Recording, load_recording
from tt_cnn.conformance.live.sheet_attributes import attributes_of, convolution_of

Row = dict[str, Any]
_DURATION = "DEVICE KERNEL DURATION [ns]"
_NEEDED = ("OP CODE", "OP TYPE", "ATTRIBUTES", "CORE COUNT", _DURATION)
_DIMENSIONS = "WZYX"
_NAMES = {"BinaryNg": "binary", "ReshapeView": "reshape", "ConvertToHWC": "convert_to_hwc", "Pool2D": "pool2d"}
_DRAM_BANKS = {"n150": 12, "n300": 12, "p150": 8}


class SheetError(ValueError):
    """A file that is not a sheet of the profiler."""


@dataclass(frozen=True)
class Timed:
    """One line of the sheet: a device operation that ran."""

    step: str
    args: dict[str, Any]
    padded: dict[str, list[list[int]]]
    """Padded shapes of inputs and outputs."""
    ns: float
    order: int


def read_sheet(path: Path) -> list[Timed]:
    """The device operations of a sheet, in the order in which they were called."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _NEEDED if name not in (reader.fieldnames or ())]
            if missing:
                raise SheetError(f"{path}: no sheet of the profiler, the columns {', '.join(missing)} are not there")
            lines = [line for line in reader if line["OP TYPE"] == "tt_dnn_device"]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SheetError(f"{path}: cannot be read ({error})") from error
    timed = [_timed(line) for line in lines if line[_DURATION]]
    return sorted(timed, key=lambda one: one.order)


def _timed(line: dict[str, str]) -> Timed:
    """A convolution whose attributes have another form keeps them as they are."""
    step = operation_name(line["OP CODE"])
    tensors = {kind: _tensors(line, kind) for kind in ("INPUT", "OUTPUT")}
    attributes = attributes_of(line["ATTRIBUTES"])
    args: dict[str, Any] = {"inputs": tensors["INPUT"], "outputs": tensors["OUTPUT"], "cores": int(line["CORE COUNT"])}
    if line.get("MATH FIDELITY"):
        args["fidelity"] = line["MATH FIDELITY"]
    try:
        told = {"conv": convolution_of(attributes, tensors["INPUT"], tensors["OUTPUT"], args["cores"])}
    except (LookupError, ValueError, TypeError):
        told = {"attrs": attributes}
    args |= told if step == "Conv2d" else {"attrs": attributes}
    padded = {
        kind: [one["padded"] if "padded" in one else one["shape"] for one in found] for kind, found in tensors.items()
    }
    return Timed(step, args, padded, float(line[_DURATION]), int(line.get("GLOBAL CALL COUNT") or 0))


def _tensors(line: dict[str, str], kind: str) -> list[Row]:
    """Logical shapes, padded ones where they differ; `DEV_0_L1_HEIGHT_SHARDED` without its chip."""
    found = []
    number = 0
    while line.get(f"{kind}_{number}_LAYOUT"):
        name = f"{kind}_{number}"
        cells = [re.fullmatch(r"(\d+)\[(\d+)\]", line[f"{name}_{d}_PAD[LOGICAL]"]) for d in _DIMENSIONS]
        dims = [(int(cell[1]), int(cell[2])) for cell in cells if cell is not None]
        padded, shape = [p for p, _ in dims], [s for _, s in dims]
        tensor: Row = {"shape": shape} | ({"padded": padded} if padded != shape else {})
        tensor |= {"layout": line[f"{name}_LAYOUT"], "dtype": line[f"{name}_DATATYPE"]}
        found.append(tensor | {"mem": re.sub(r"^DEV_\d+_", "", line[f"{name}_MEMORY"])})
        number += 1
    return found


def time_rows(
    timed: Sequence[Timed], recording: Recording | None, *, program: str, card: str, source: str, day: str = ""
) -> list[Row]:
    """One row for each different call, in the order of their first time."""
    steps = _steps_of(timed, recording)
    calls: dict[str, list[int]] = {}
    for number, one in enumerate(timed):
        planned = None if steps is None else _planned(one, steps[number])
        calls.setdefault(json.dumps([one.step, one.args, planned], sort_keys=True), []).append(number)
    rows = []
    for key, numbers in calls.items():
        first = timed[numbers[0]]
        times = [timed[number].ns for number in numbers]
        op = _NAMES.get(first.step) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", first.step).lower()
        row: Row = {
            "id": f"{program}-{op}-{hashlib.sha256(key.encode()).hexdigest()[:8]}",
            "card": card,
            "op": op,
            "args": first.args,
            "ns": statistics.median(times),
            "measure": "kernel",
            "n": len(times),
            "min_ns": min(times),
            "max_ns": max(times),
            "notes": f"{program}, eager, program cache on",
            "date": day or date.today().isoformat(),
            "source": source,
            "confidence": "high",
            "set": "on-card",
            "replayable": steps is not None,
        }
        if steps is None:
            row["reason"] = "the steps of the profiled run are not those that were recorded, so shards are not known"
        else:
            grid = list(recording.card.grid) if recording is not None else []
            row["virtual"] = {"card": card, "grid": grid, "dram_banks": _DRAM_BANKS.get(card)}
            row["planned"] = _planned(first, steps[numbers[0]])
        rows.append(row)
    return rows


def _steps_of(timed: Sequence[Timed], recording: Recording | None) -> list[LiveStep] | None:
    """The recorded step of each line, where both runs have the same steps."""
    if recording is None or [one.step for one in timed] != [step.op for step in recording.steps]:
        return None
    return recording.steps


def _planned(one: Timed, step: LiveStep) -> Row:
    return {
        "step": step.op,
        "factory": step.factory,
        "count": 1,
        "cores": one.args["cores"],
        "inputs": _specs(step.inputs, one.padded["INPUT"]),
        "outputs": _specs(step.outputs, one.padded["OUTPUT"]),
        "attributes": {},
    }


def _specs(specs: Sequence[Row], padded: Sequence[list[int]]) -> list[Row]:
    found = []
    for spec, shape in zip(specs, padded, strict=False):
        one: Row = {"shape": spec["shape"], "padded": shape, "dtype": spec["dtype"], "layout": spec["layout"]}
        one |= {"memory": spec.get("memory_layout", ""), "buffer": spec.get("buffer_type", "")}
        if "shard_shape" in spec:
            ranges = ", ".join(f"[{a[0]}-{a[1]} - {b[0]}-{b[1]}]" for a, b in spec["grid"])
            one["shard"] = {
                "shape": spec["shard_shape"],
                "grid": f"{{{ranges}}}",
                "orientation": spec["orientation"],
            }
        found.append(one)
    return found


def write_times(sheet: Path, steps: Path | None, out: Path, program: str, card: str) -> int:
    """The sheet as a corpus; returns how many rows it has."""
    recording = None if steps is None else load_recording(steps)
    rows = time_rows(read_sheet(sheet), recording, program=program, card=card, source=sheet.name)
    out.write_bytes(gzip.compress("".join(f"{json.dumps(row)}\n" for row in rows).encode()))
    return len(rows)


def main(sheet: str, steps: str, out: str) -> int:
    """The program and the card are in the name of the recording: `steps_resnet50_n150.json.gz`."""
    program, _, card = Path(steps).name.removesuffix(".json.gz").removeprefix("steps_").rpartition("_")
    print(f"{out}: {write_times(Path(sheet), Path(steps), Path(out), program, card)} different kernel calls")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:4]))
    except ValueError as error:
        sys.exit(str(error))
