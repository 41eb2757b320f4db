# SPDX-License-Identifier: Apache-2.0
"""How long `tt-cnn profile` takes from a cold start, all that it writes included.

    python benchmarks/profiles.py [--check]

UNet, YOLOv4 at both resolutions and ResNet50 on an n150 and a p150, each in a process of its own: 5 s at most on a
quiet machine. Times are given as multiples of a process that only imports torch, too; `--check` exits 1 where 5 s are
missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from itertools import product

MODELS = (("vanilla_unet", "480x640"), ("yolov4", "320x320"), ("yolov4", "640x640"), ("resnet50", "224x224"))
CARDS = ("n150", "p150")
SECONDS = 5.0
RUNS = 3


def seconds(*command: str) -> float:
    """The best of some runs: other programs make a run longer, nothing makes it shorter."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


def profile_seconds(model: str, resolution: str, card: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        options = ("--resolution", resolution, "--card", card, "-o", folder)
        return seconds("-m", "tt_cnn.cli", "profile", model, *options)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="exit 1 where a profile takes longer than it may")
    arguments = parser.parse_args()
    torch = seconds("-c", "import torch")
    print(f"importing torch: {torch:.2f} s\n")
    print("| model | input | card | seconds | times torch's import |\n|---|---|---|---|---|")
    missed = 0
    for (model, resolution), card in product(MODELS, CARDS):
        found = profile_seconds(model, resolution, card)
        missed += found > SECONDS
        print(f"| {model} | {resolution} | {card} | {found:.2f} | {found / torch:.1f} |", flush=True)
    if missed:
        print(f"\n{missed} profiles took more than {SECONDS:g} s")
    return int(arguments.check and missed > 0)


if __name__ == "__main__":
    sys.exit(main())
