# SPDX-License-Identifier: Apache-2.0
"""The options of `tt-cnn optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

GoalName = Annotated[
    str,
    typer.Option(
        "--goal",
        metavar="latency|throughput|memory",
        help="What is made smaller: the kernels of one input, of one image in the best batch, or L1 at its fullest.",
    ),
]
MinPcc = Annotated[
    float | None,
    typer.Option(
        "--min-pcc",
        min=0.0,
        max=1.0,
        show_default=False,
        help="What every output must keep against PyTorch. [default: 0.99, and 0.9 with --min-metric]",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="WHICH",
        help="What is optimised and compared: seeded (random, reproducible), shipped (which may be of a smaller "
        "network of that name), public (fetched by `tt-cnn weights`), or a file: .safetensors, .pt, .pth. "
        "[default: seeded]",
    ),
]
CalibrationPath = Annotated[
    Path | None,
    typer.Option(
        "--calibration",
        metavar="PATH",
        help="Your own inputs to measure accuracy on: a folder of images, or NCHW tensors in a .pt, .npy or "
        ".safetensors file, normalised as the model takes them. Half of them choose, the others verify. "
        "[default: generated images]",
    ),
]
MinMetric = Annotated[
    float | None,
    typer.Option(
        "--min-metric",
        metavar="POINTS",
        help="What the task's figure (mAP, IoU, top-1) must keep, in points as `tt-cnn evaluate` shows it. Needs "
        "trained weights.",
    ),
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Images for the task's figure, as `tt-cnn evaluate --data` takes them; it is shown before and after. "
        "[default: generated ones with --weights shipped, else none]",
    ),
]
Count = Annotated[
    int, typer.Option("--count", min=1, metavar="N", help="Of --data: N images to choose by, and N to verify.")
]
BudgetOption = Annotated[
    str, typer.Option("--budget", metavar="TIME", help="How long to search: 120s, 2m or seconds as a number.")
]
Candidates = Annotated[
    int | None,
    typer.Option("--candidates", min=0, metavar="N", help="Try N candidates, in place of a time budget: reproducible."),
]
Seed = Annotated[int, typer.Option("--random-seed", metavar="S", help="Seed of the steps that choose at random.")]
Steps = Annotated[
    str | None, typer.Option("--steps", metavar="A,B", help="Only these steps; --explain lists them. [default: all]")
]
Only = Annotated[
    list[str] | None, typer.Option("--only", metavar="LAYER", help="Change only these layers; * and ? are wildcards.")
]
Freeze = Annotated[list[str] | None, typer.Option("--freeze", metavar="LAYER", help="Leave these layers as they are.")]
Resume = Annotated[Path | None, typer.Option("--resume", metavar="DIR", help="Continue the search of a result folder.")]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Say what would make the model faster, and what the steps may change; no search."),
]
Apply = Annotated[
    Path | None,
    typer.Option("--apply", metavar="FILE", help="Try the changes of findings or of a config.json, and nothing else."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result, or what --explain finds, as JSON.")]
NoRecord = Annotated[bool, typer.Option("--no-record", help="Do not use or extend the record of earlier searches.")]
Exact = Annotated[
    bool, typer.Option("--exact", help="Compare the result's values in exact numerics, which takes minutes.")
]
Folder = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        metavar="DIR",
        help="Where the result goes; DIR-2, -3, ... if it is taken. [default: out/optimize/MODEL-CARD]",
    ),
]
