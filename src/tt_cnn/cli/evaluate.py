# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn evaluate`: how good a model is on the card, beside PyTorch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.gate import Gate, Junit, Markdown
from tt_cnn.cli.model_options import (
    Card,
    Executor,
    Precision,
    Resolution,
    Weights,
    entry_of,
    precision_of,
    resolution_of,
)
from tt_cnn.cli.ray_options import Actors, Ray, RayPlace, Threads, ray_place
from tt_cnn.cli.tables import Listing, numbers, texts

if TYPE_CHECKING:
    from torch.nn import Module

    from tt_cnn.evaluation.chosen_data import DataSet
    from tt_cnn.evaluation.side_by_side import Comparison
    from tt_cnn.models import ModelEntry
    from tt_cnn.reports.gate import Verdict

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model of the package, or your own as module:ENTRY (a ModelEntry).")
]
Data = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="A folder in the format of the model's task; or generated; or skimage, the photographs of scikit-image.",
    ),
]
Count = Annotated[int, typer.Option("--count", min=1, help="The most images to use, from the first.")]
Within = Annotated[
    float | None,
    typer.Option(
        "--within", metavar="POINTS", help="Fail when the card's figure differs more than this from PyTorch's."
    ),
]
Minimum = Annotated[
    list[str] | None,
    typer.Option(
        "--min",
        metavar="[FIGURE=]POINTS",
        help="Fail when the card reaches fewer points: --min 80 for the first figure, --min Dice=85 for another; "
        "repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")]


def evaluate(
    model: Model,
    data: Data = None,
    count: Count = 32,
    weights: Weights = None,
    card: Card = None,
    executor: Executor = "trace+2cq",
    precision: Precision = "tuned",
    resolution: Resolution = None,
    within: Within = None,
    minimum: Minimum = None,
    markdown: Markdown = None,
    junit: Junit = None,
    ray: Ray = None,
    actors: Actors = None,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model on images, on the card and in PyTorch, side by side.

    The folder of --data holds, by the model's task:

    \b
    detection       images and annotations.json in COCO's format, or COCO's own
                    layout (annotations/instances_val2017.json, val2017/) -> mAP
    segmentation    images/NAME.png and masks/NAME.png, or NAME.tif beside
                    NAME_mask.tif -> IoU, Dice
    classification  CLASS/NAME.jpg, CLASS a name or number of a class -> top-1,
                    top-5; or images alone, where PyTorch's answer is the truth

    Without --data a detector or segmenter gets images that are drawn for it (the shipped weights were trained on
    others of their kind), a classifier the photographs that scikit-image carries.

    Examples:

    \b
    tt-cnn evaluate vanilla_unet
    tt-cnn evaluate yolov4 --count 100 --within 1
    tt-cnn evaluate efficientnet_lite0 --data skimage
    tt-cnn evaluate vanilla_unet --min IoU=85 --min Dice=90 --within 1 --junit gate.xml
    tt-cnn evaluate yolov4 --weights public --data coco/ --resolution 640x640
    tt-cnn evaluate yolov4 --data coco/ --count 5000 --ray --actors 4

    With --ray each actor has a card of its own, and the figures are the same (those of PyTorch to its rounding, which
    depends on the number of threads). Images that cannot be read are reported
    and left out, and the exit status is 1.
    """
    from tt_cnn.evaluation.chosen_data import data_set, generated_names
    from tt_cnn.evaluation.class_names import names_of
    from tt_cnn.evaluation.side_by_side import classes_of
    from tt_cnn.evaluation.weights import reference_with

    gate, wanted = Gate(markdown, junit), _minima(minimum or [])
    place = ray_place(ray, actors, threads)
    entry = entry_of(model)
    size = resolution_of(entry, resolution)
    reference, whose = reference_with(entry, weights)
    classes = classes_of(entry, reference, size)
    names = names_of(reference, classes, generated_names(entry))
    pictures, source = data_set(entry, data, names, count=count, resolution=size)
    total = min(count, len(pictures))
    options = {"card": card, "executor": executor, "precision": precision_of(precision), "resolution": size}
    unreadable: tuple[str, ...] = ()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        shown = Shown(bar, bar.add_task(f"building {entry.title}", total=total), entry.title)
        if place is None:
            where, result = _here(entry, reference, pictures, count, classes, options, shown)
        else:
            chosen = {"model": model, "weights": weights, "data": data, "count": count}
            where, result, unreadable = _on_cards(place, entry, chosen, total, classes, options, shown)
    about = {"model": entry.name, "weights": whose, "data": source, "on": where, "precision": precision}
    title = f"{entry.title} at {size[0]}x{size[1]}, {whose}, {result.pictures} {source}"
    if as_json:
        print(json.dumps({**about, **asdict(result), "differences": result.differences()}))
    else:
        _show(title, where, result, on_actors=place is not None)
    for words in unreadable:
        say(f"left out: {words}", console=errors)
    gate.finish(title, judged(result, within, wanted), _facts(result))
    if unreadable:
        raise typer.Exit(1)


@dataclass(frozen=True)
class Shown:
    """The line of progress."""

    bar: Progress
    line: TaskID
    title: str

    def begins(self, where: str) -> None:
        self.bar.update(self.line, description=f"{self.title} on {where} and in PyTorch")

    def advance(self, pictures: int) -> None:
        self.bar.advance(self.line, pictures)


def _here(
    entry: ModelEntry,
    reference: Module,
    pictures: DataSet,
    count: int,
    classes: int,
    options: dict[str, Any],
    shown: Shown,
) -> tuple[str, Comparison]:
    from tt_cnn.evaluation.side_by_side import compare
    from tt_cnn.models.running import card_name, running_model

    with running_model(entry, reference, **options) as running:
        where = card_name(running.model.device)
        shown.begins(where)
        result = compare(entry, reference, running, pictures, count=count, classes=classes, progress=shown.advance)
    return where, result


def _on_cards(
    place: RayPlace,
    entry: ModelEntry,
    chosen: dict[str, Any],
    total: int,
    classes: int,
    options: dict[str, Any],
    shown: Shown,
) -> tuple[str, Comparison, tuple[str, ...]]:
    from tt_cnn.distributed.evaluating import compare_on_cards, evaluation_work

    work = evaluation_work(**chosen, options=options, threads=place.threads)
    with place.connected() as cluster:
        found = compare_on_cards(
            cluster,
            work,
            entry,
            total,
            classes,
            actors=place.actors,
            begins=shown.begins,
            progress=shown.advance,
            lost=place.tell_lost,
        )
    return found.on, found.comparison, found.unreadable


def _show(title: str, where: str, result: Comparison, on_actors: bool) -> None:
    say(title)
    table = Listing((*texts("figure", folds=True), *numbers("PyTorch", where, "difference")))
    for name, difference in result.differences().items():
        cells = (f"{result.reference[name]:.2f}", f"{result.card[name]:.2f}", f"{difference:+.2f}")
        table.add(name, *cells)
    if result.reference:
        table.add_section()
    for name, value in result.agreement.items():
        table.add(f"{name}, were PyTorch right", "", f"{value:.2f}", "")
    for name, value in result.pcc.items():
        table.add(f"PCC of {name}, worst image", "", f"{value:.5f}", "")
    table.add_section()
    speeds = (f"{each:.1f}" for each in (result.reference_per_second, result.card_per_second))
    table.add("images per second on this machine" + " (one actor)" * on_actors, *speeds, "")
    table.show()
    if result.differing:
        say(f"another first class than PyTorch's: {', '.join(result.differing)}")


def _minima(given: list[str]) -> list[tuple[str, float]]:
    """Names and points; an empty name is the first figure."""
    found = []
    for text in given:
        name, _, points = text.rpartition("=")
        try:
            found.append((name, float(points)))
        except ValueError as error:
            raise typer.BadParameter(f"{text!r} is not [FIGURE=]POINTS, like 80 or IoU=80") from error
    return found


def judged(result: Comparison, within: float | None, minimum: list[tuple[str, float]]) -> list[Verdict]:
    """The card's points against those asked for, and against PyTorch's.

    With truth known, the figures must be near PyTorch's; without, the answers must be PyTorch's.
    """
    from tt_cnn.reports.gate import Verdict, judge_points

    reached = result.card or result.agreement
    verdicts = judge_points(reached, {name or next(iter(reached), "figure"): points for name, points in minimum})
    if within is None:
        return verdicts
    away = result.differences() or {name: value - 100 for name, value in result.agreement.items()}
    return verdicts + [
        Verdict(f"{name}, from PyTorch", f"{value:+.2f} points", f"within {within:g}", abs(value) <= within)
        for name, value in away.items()
    ]


def _facts(result: Comparison) -> list[tuple[str, str]]:
    """Of the table for a pull request."""
    figures = [(f"{name} on the card", f"{value:.2f}") for name, value in (result.card or result.agreement).items()]
    figures += [(f"{name} in PyTorch", f"{value:.2f}") for name, value in result.reference.items()]
    return figures + [(f"PCC of {name}, worst image", f"{value:.5f}") for name, value in result.pcc.items()]
