# SPDX-License-Identifier: Apache-2.0
"""What the commands that run a model have in common: the model, its weights, the card."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from tt_cnn.models import ModelEntry
    from tt_cnn.models.tt_model import Precision as PrecisionName

Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="WHICH",
        help="shipped, public (fetched by `tt-cnn weights`), seeded (random, reproducible), or a file: .safetensors, "
        ".pt, .pth. Without it the first of these that there is.",
    ),
]
Card = Annotated[
    str | None,
    typer.Option(
        "--card",
        help="The virtual card: n150, n300 (both chips), t3000 (8), galaxy (32), p150 or p100; "
        "p150-13x10 for another grid of cores. [default: n150]",
    ),
]
Executor = Annotated[
    str,
    typer.Option(
        "--executor",
        "--pipeline",
        metavar="NAME",
        help="How inputs go through: plain, trace, 2cq, trace+2cq, trace+2cq+io. docs/pipeline.md explains them.",
    ),
]
Precision = Annotated[
    str,
    typer.Option("--precision", help="tuned (bfloat8_b where the accuracy allows it) or bfloat16 (activations)."),
]
Resolution = Annotated[
    str | None,
    typer.Option("--resolution", metavar="HxW", help="Resolution of the model's input; one that it is tuned for."),
]


def entry_of(text: str) -> ModelEntry:
    from tt_cnn.models.entry_names import entry_of

    return entry_of(text)


def precision_of(text: str) -> PrecisionName:
    names: dict[str, PrecisionName] = {"tuned": "tuned", "bfloat16": "bfloat16"}
    if text not in names:
        raise ValueError(f"--precision is {text!r}; it must be {' or '.join(names)}")
    return names[text]


def resolution_of(entry: ModelEntry, text: str | None) -> tuple[int, int]:
    if text is None:
        return entry.resolution
    height, cross, width = text.lower().partition("x")
    if not (cross and height.isdecimal() and width.isdecimal()):
        raise ValueError(f"--resolution is {text!r}; it must be like 320x320, height first")
    return int(height), int(width)
