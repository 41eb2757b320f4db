# SPDX-License-Identifier: Apache-2.0
"""Seconds from nothing: `import tt_cnn` over `import torch`, and the first image of `tt-cnn demo` with empty caches.

    python benchmarks/start.py [--rounds 5] [--peers onnxruntime,openvino] [--check] [--write FILE]

Each measurement is a process of its own, in turns. The first image is there when the demo has written it: torch is
imported, UNet made from its weights, run by PyTorch, run on the card and compared, its pipeline compiled, the image
drawn. The only cache is the folder that TT_CNN_CACHE names, empty for each run: there are no compiled kernels and no
tunings. Weights are in the package; Python's own compiled files are there, as after any installation: a round that does
not count writes them.

A peer imports torch, makes the same module from the same weights, exports it, compiles it, and writes the mask of the
same image: no comparison, no drawing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

IMPORT, FIRST_IMAGE = 0.3, 5.0
IMPORTS = {"import tt_cnn": "import tt_cnn", "from tt_cnn import ttnn": "from tt_cnn import ttnn"}
PEERS = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "compile": "torch.compile", "torch": "torch eager"}
MODEL = "vanilla_unet"
IMAGE = f"{MODEL}_0.png"
OURS = "tt-cnn demo"


def import_seconds(statement: str) -> float:
    """Of a statement after torch is there."""
    program = f"import torch, time; start = time.perf_counter(); {statement}; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout)


def seconds_until(command: Sequence[str], file: Path, environment: dict[str, str]) -> float:
    """From the start of a process until it has written a file; what else it does is waited for."""
    began, found = time.perf_counter(), None
    with subprocess.Popen(
        command, env=environment, cwd=file.parent.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        while found is None and process.poll() is None:
            time.sleep(0.005)
            found = time.perf_counter() - began if file.exists() else None
        process.terminate()
        _, said = process.communicate()
    if found is None:
        raise RuntimeError(f"{' '.join(command)} ended without {file.name}:\n{said[-2000:]}")
    return found


def first_image(name: str) -> float:
    """Of the demo, or of a peer."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        environment = os.environ | {"TT_CNN_CACHE": str(folder / "cache")}
        output = folder / "out" / IMAGE
        if name == OURS:
            command = ["-m", "tt_cnn", "demo", "-o", str(output.parent)]
        else:
            output.parent.mkdir()
            command = [__file__, "--peer", name, "--output", str(output)]
        return seconds_until([sys.executable, *command], output, environment)


def run_peer(name: str, output: Path) -> None:
    """What the process of a peer does."""
    import torch

    from tt_cnn.bench import create_peer
    from tt_cnn.evaluation.drawn_data import SegmentationShapes
    from tt_cnn.evaluation.pictures import write_picture
    from tt_cnn.evaluation.preparation import prepare
    from tt_cnn.models import create_reference, model_entry

    entry, reference = model_entry(MODEL), create_reference(MODEL, shipped=True)
    picture = SegmentationShapes("val", size=entry.resolution, count=1)[0][0]
    images, _ = prepare(entry, picture)
    ((mask,),) = create_peer(name, reference, images).run([images])
    planes = (255 * mask[0, 0]).to(torch.uint8)
    write_picture(output, planes.unsqueeze(2).expand(-1, -1, 3).numpy())


def in_turns(subjects: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {name: [] for name in subjects}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds} ...", file=sys.stderr, flush=True)
        for name, measured in subjects.items():
            found[name].append(measured())
    return found


def lines(found: dict[str, list[float]]) -> list[str]:
    rows = ["| | median s | least s | most s | goal s |", "|---|--:|--:|--:|--:|"]
    for name, seconds in found.items():
        goal = goal_of(name)
        rows.append(
            f"| {name} | {statistics.median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} | "
            f"{'' if goal is None else f'{goal:g}'} |"
        )
    return rows


def goal_of(name: str) -> float | None:
    if name.startswith("first image"):
        return FIRST_IMAGE if name.endswith(OURS) else None
    return IMPORT


def misses(found: dict[str, list[float]]) -> list[str]:
    return [
        f"{name}: {statistics.median(seconds):.2f} s; at most {goal:g} s are wanted"
        for name, seconds in found.items()
        if (goal := goal_of(name)) is not None and statistics.median(seconds) > goal
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", default="onnxruntime,openvino", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--check", action="store_true", help="exit 1 where a goal is missed")
    parser.add_argument("--write", type=Path, help="add the table to a Markdown file")
    parser.add_argument("--peer", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peer is not None:
        return run_peer(options.peer, options.output)
    from speed import add_results, machine

    before = machine()
    peers = [name for name in options.peers.split(",") if name]
    subjects: dict[str, Callable[[], float]] = {
        f"{name}, after torch": lambda statement=statement: import_seconds(statement)
        for name, statement in IMPORTS.items()
    }
    subjects |= {
        f"first image, {PEERS.get(name, name)}": lambda name=name: first_image(name) for name in (OURS, *peers)
    }
    with tempfile.TemporaryDirectory() as compiled:
        os.environ["PYTHONPYCACHEPREFIX"] = compiled
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        in_turns(subjects, 1)
        found = in_turns(subjects, options.rounds)
    table = lines(found)
    print("\n".join([before, "", *table]))
    if options.write is not None:
        add_results(options.write, before, table)
    missed = misses(found)
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(int(options.check and bool(missed)))


if __name__ == "__main__":
    main()
