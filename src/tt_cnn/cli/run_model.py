# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn run MODEL FOLDER|PARQUET --ray`: what a model says of many images, by actors with a card each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.model_options import entry_of, precision_of, resolution_of
from tt_cnn.cli.ray_options import RayPlace

NAMED = 20
"""Images that cannot be read of which each gets a line; the file has them all."""


def run_model(
    target: list[str],
    output: Path | None,
    place: RayPlace,
    weights: str | None,
    threshold: float | None,
    options: Mapping[str, Any],
) -> None:
    if len(target) != 2:
        raise typer.BadParameter(f"with --ray it takes MODEL and FOLDER|PARQUET, not {' '.join(target)!r}")
    if output is None:
        raise typer.BadParameter("with --ray it needs -o OUT: a folder, or a file NAME.json")
    model, images = target
    from tt_cnn.distributed.extra import require

    require("pyarrow", "writing predictions")
    from tt_cnn.distributed.predicting import prediction_job
    from tt_cnn.distributed.sources import pictures_of

    entry = entry_of(model)
    chosen = {
        **options,
        "precision": precision_of(options["precision"]),
        "resolution": resolution_of(entry, options["resolution"]),
    }
    sources = pictures_of(Path(images))
    job = prediction_job(model, weights, chosen, sources, output, threshold=threshold, threads=place.threads)
    done_before = len(sources) - len(job.left)
    if done_before:
        say(f"{done_before} of {len(sources)} images were done before", console=errors)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        line = bar.add_task(f"{entry.title} on {images}", total=len(sources), completed=done_before)
        if job.left:
            with place.connected() as cluster:
                job.run(cluster, place.actors, lambda pictures: bar.advance(line, pictures), place.tell_lost)
    unreadable = job.finish()
    for words in unreadable[:NAMED]:
        say(f"left out: {words}", console=errors)
    if len(unreadable) > NAMED:
        say(f"left out: {len(unreadable) - NAMED} others", console=errors)
    say(f"{output}: predictions of {entry.title} for {len(sources) - len(unreadable)} of {len(sources)} images")
    if unreadable:
        raise typer.Exit(1)
