# SPDX-License-Identifier: Apache-2.0
"""Measure how the convolutions of the project's models run quickest on this GPU, and ship it with the package.

    python benchmarks/tunings.py [--models ...] [--batches 1,8] [--precisions 16,fp8]

Writes `src/tt_cnn/virtual/engines/replay/cuda/shipped/GPU.json` for this GPU and this version of Triton, case by case.
What was shipped or kept before is measured again, and what no case has stays where it is for the same two. A model with
a batch is compiled as `benchmarks/speed.py --device cuda` does it, from an empty cache folder on.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import torch
import triton
from speed_gpu import of_the_reference
from speed_gpu_case import Case
from speed_gpu_fp8 import in_8_bits

from tt_cnn import cache_folder
from tt_cnn.bench import VirtualCard
from tt_cnn.models import create_reference, list_models, model_entry
from tt_cnn.virtual.engines.replay.cuda import tunings
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Workspace
from tt_cnn.virtual.engines.replay.cuda.tuning import Tuner


def tune(model: str, batch: int, precision: str) -> None:
    case = Case(model, batch)
    if precision == "fp8":
        in_8_bits(case, case.expected())
        return
    if batch in model_entry(model).batch_sizes:
        VirtualCard(model, create_reference(model), case.example, engine="cuda").close()
    of_the_reference(case, case.expected(), None)


def measured() -> dict[str, tunings.Timed]:
    """What the tuners of this process have kept."""
    kept = Tuner(Workspace(torch.device("cuda")), cache_folder.folder()).file
    return tunings.read_ways(cache_folder.read_json(kept))


def write(ways: dict[str, tunings.Timed], file: Path) -> None:
    about = {
        "gpu": torch.cuda.get_device_name(),
        "triton": triton.__version__,
        "torch": torch.__version__,
        "made": str(date.today()),
    }
    lines = ",\n".join(
        f"{json.dumps(key)}: {json.dumps([name, tiles, round(microseconds, 2)])}"
        for key, (name, tiles, microseconds) in sorted(tunings.written_ways(ways).items())
    )
    file.parent.mkdir(exist_ok=True)
    file.write_text(f'{json.dumps(about)[:-1]}, "ways": {{\n{lines}\n}}}}\n', encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(list_models()))
    parser.add_argument("--batches", default="1,8")
    parser.add_argument("--precisions", default="16,fp8")
    options = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        sys.exit("torch sees no CUDA device here")
    gpu = torch.cuda.get_device_name()
    file = tunings.SHIPPED / f"{re.sub('[^a-z0-9]+', '_', gpu.lower())}.json"
    before = tunings.shipped(gpu, triton.__version__)
    tunings.SHIPPED = file.parent / "nothing"
    with tempfile.TemporaryDirectory() as empty:
        os.environ[cache_folder.VARIABLE] = empty
        for precision in options.precisions.split(","):
            for batch in map(int, options.batches.split(",")):
                for model in options.models.split(","):
                    start = time.perf_counter()
                    try:
                        tune(model, batch, precision)
                    except (RuntimeError, ValueError) as error:
                        print(f"{model} x{batch}, {precision}: {str(error).splitlines()[0]}", file=sys.stderr)
                    found = before | measured()
                    write(found, file)
                    spent = time.perf_counter() - start
                    print(f"{model} x{batch}, {precision}: {spent:.1f} s, {len(found)} convolutions", flush=True)


if __name__ == "__main__":
    main()
