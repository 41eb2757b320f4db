# SPDX-License-Identifier: Apache-2.0
"""How time and memory of a replay grow with the batch, the resolution and the depth, beside peers: exponents.

    python benchmarks/growth.py [batch resolution depth] [--peers onnxruntime,openvino,compile] [--check] [--write FILE]

`batch` is ResNet50 by its images, `resolution` UNet by the size of its image, `depth` ResNet by the bottlenecks of each
of its four stages. All are brought up from torch modules for an n150 and replay in `native` float32 through the traced
two-queue pipeline. Each subject has a process of its own at each size; those of one size replay in turns.

Memory is what the process takes at most while it replays, less what it took before the subject was made: imports, the
torch module, its weights and an image. Ours compiles with an empty cache, so that it also chooses its engine; the
kernels themselves are there. An exponent is the slope of a straight line through the logarithms of work,
counted in multiplications, and of what was measured, by least squares.

With `--check`, 1 is the status where an exponent of ours is larger than that of the peer that is fastest at the largest
size by more than a tolerance, or where time grows faster than the work from one size to the next.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import torch
from asked import Asked
from growth_fit import OURS, Point, Series
from growth_subject import KINDS
from speed import add_results, machine

NAMES = {"onnxruntime": "ONNX Runtime", "openvino": "OpenVINO", "compile": "torch.compile", "torch": "torch eager"}
SCRIPT = Path(__file__).with_name("growth_subject.py")


def measured(kind: str, sizes: Sequence[str], peers: Sequence[str], rounds: int, threads: int) -> Series:
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as cache:
        for size in sizes:
            print(f"measuring {kind} {size} ...", file=sys.stderr, flush=True)
            points += at_size(kind, size, peers, rounds, threads, cache)
    return Series(kind, tuple(points))


def at_size(kind: str, size: str, peers: Sequence[str], rounds: int, threads: int, cache: str) -> list[Point]:
    """All subjects in turns; none is always first."""
    with ExitStack() as opened:
        environment = os.environ | {"TT_CNN_CACHE": cache}
        asked: dict[str, Asked] = {}
        for name in (OURS, *peers):
            asked[name] = Asked(SCRIPT, [name, kind, size, str(threads)], environment)
            opened.callback(asked[name].close)
        names = list(asked)
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number in range(rounds):
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                seconds[name].append(asked[name].ask(1)["seconds"])
        return [
            Point(NAMES.get(name, name), size, seconds=statistics.median(seconds[name]), **asked[name].answer)
            for name in names
        ]


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="KIND", help=f"of {', '.join(KINDS)}; all")
    parser.add_argument("--sizes", help="of one kind, in place of its own: 240x320,480x640")
    parser.add_argument("--peers", default="onnxruntime,openvino,compile", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--check", action="store_true", help="exit 1 where ours grows faster")
    parser.add_argument("--write", type=Path, help="add the tables to a Markdown file")
    options = parser.parse_args(given)
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    options.peers = [name for name in options.peers.split(",") if name]
    for name in options.peers:
        if name not in NAMES:
            parser.error(f"there is no peer {name!r}; there are {', '.join(NAMES)}")
    if options.sizes is not None and len(options.kinds) != 1:
        parser.error(f"--sizes are of one kind; {len(options.kinds)} are to be measured")
    options.sizes = {
        kind: tuple(options.sizes.split(",")) if options.sizes else KINDS[kind].sizes for kind in options.kinds
    }
    for kind, sizes in options.sizes.items():
        if len(set(sizes)) < 2:
            parser.error(f"an exponent of {kind} needs two sizes and more; --sizes are {', '.join(sizes)}")
    return options


def main() -> None:
    options = arguments()
    before = machine()
    found = [
        measured(kind, options.sizes[kind], options.peers, options.rounds, options.threads) for kind in options.kinds
    ]
    table = "\n\n".join("\n".join(one.lines()) for one in found).splitlines()
    missed = [miss for one in found for miss in one.misses]
    print("\n".join([before, "", *table]))
    if options.write is not None:
        add_results(options.write, before, [*table, "", *(f"missed: {miss}" for miss in missed)])
    for miss in missed:
        print(f"missed: {miss}", file=sys.stderr)
    sys.exit(int(options.check and bool(missed)))


if __name__ == "__main__":
    main()
