# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn memory`: whether a model fits into a card's L1, and what it must be given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from tt_cnn.cli.console import errors, output, say
from tt_cnn.cli.model_options import Card, Executor, Precision, Resolution, entry_of, precision_of, resolution_of
from tt_cnn.cli.profile import Batch, Model

Html = Annotated[
    Path | None, typer.Option("--html", metavar="FILE", help="Write the timeline as a page; a file there is kept.")
]
Settings = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="Where it does not fit: write settings of layers with which it does, for create_tt(config=FILE).",
    ),
]
Steps = Annotated[bool, typer.Option("--timeline", help="Show the L1 per core step by step.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the answer and every step as JSON.")]

DOES_NOT_FIT = 1


def memory(
    model: Model,
    card: Card = None,
    executor: Executor = "trace+2cq",
    resolution: Resolution = None,
    batch: Batch = 1,
    precision: Precision = "tuned",
    timeline: Steps = False,
    html: Html = None,
    settings: Settings = None,
    as_json: AsJson = False,
) -> None:
    """Say whether a model fits into a card's L1: its peak, its tightest layers, and what open_device must be given.

    Where it does not fit: every call that is refused, who holds the memory, and changes that would fit. Those after the
    first are planned as if the ones before had fitted. The exit status is 1 then.

    Examples:

    \b
    tt-cnn memory yolov4 --card n150
    tt-cnn memory vanilla_unet --timeline
    tt-cnn memory resnet50 --batch 16 --html out/resnet50.html
    """
    from tt_cnn.reports.memory_report import memory_of, report_figures, report_text, timeline_html, timeline_text
    from tt_cnn.virtual.devices.opening import option

    for file in (html, settings):
        if file is not None and file.exists():
            raise FileExistsError(f"{file} is there already; name another file")
    entry = entry_of(model)
    report = memory_of(
        entry.name,
        card=option("card", card),
        resolution=resolution_of(entry, resolution),
        batch_size=batch,
        precision=precision_of(precision),
        executor=executor,
    )
    aside = errors if as_json else output
    if as_json:
        print(json.dumps(report_figures(report)))
    else:
        for line in report_text(report):
            say(line)
    if timeline and not as_json:
        for line in timeline_text(report):
            output.print(line, markup=False, highlight=False, soft_wrap=True)  # an image: not broken between words
    if html is not None:
        html.parent.mkdir(parents=True, exist_ok=True)
        html.write_text(timeline_html(report), encoding="utf-8")
        say(f"timeline: {html}", console=aside)
    elif not timeline and not as_json:
        hint = f"tt-cnn memory {model} --timeline, or --html FILE, for every step"
        say(hint, "dim")
    if settings is not None and report.settings:
        settings.parent.mkdir(parents=True, exist_ok=True)
        settings.write_text(json.dumps({"layers": report.settings.to_dict()}, indent=2) + "\n", encoding="utf-8")
        say(f"settings: {settings}", console=aside)
    if not report.fits:
        raise typer.Exit(DOES_NOT_FIT)
