# SPDX-License-Identifier: Apache-2.0
"""Images and videos through one model, drawn side by side."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn

from tt_cnn.cli.console import errors, say
from tt_cnn.evaluation import drawing
from tt_cnn.evaluation.chosen_data import data_set, generated_names, name_of
from tt_cnn.evaluation.class_names import names_of
from tt_cnn.evaluation.folders import PicturesAlone
from tt_cnn.evaluation.pictures import Picture, write_picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.side_by_side import classes_of
from tt_cnn.evaluation.tasks import TASKS
from tt_cnn.evaluation.video import VideoWriter, opened_video
from tt_cnn.evaluation.weights import reference_with
from tt_cnn.models import ModelEntry
from tt_cnn.models.running import RunningModel, card_name, reference_outputs, running_model
from tt_cnn.models.tt_model import Precision
from tt_cnn.reports.words import counted

FRAMES_AT_ONCE = 8
CPU = "on this machine's CPU, not a card's speed"


@dataclass
class Show:
    """What the demo of a model was asked for."""

    entry: ModelEntry
    weights: str | None
    card: str | None
    executor: str
    precision: Precision
    resolution: tuple[int, int]
    threshold: float | None
    reference: nn.Module = field(init=False)
    names: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.reference, self.whose = reference_with(self.entry, self.weights)
        classes = classes_of(self.entry, self.reference, self.resolution)
        self.names = names_of(self.reference, classes, generated_names(self.entry))

    def pictures(self, path: Path | None, folder: Path, count: int) -> None:
        """Each image annotated twice, into a PNG of its name."""
        data = (
            data_set(self.entry, None, self.names, count=count, resolution=self.resolution)[0]
            if path is None
            else PicturesAlone.of(path, self.names)
        )
        indexes = range(min(count, len(data)))
        pictures = [data[index][0] for index in indexes]
        with self._running(len(pictures)) as (running, bar, task):
            sheets = self._annotated(running, pictures)
            for index, (sheet, line) in zip(indexes, sheets, strict=True):
                write_picture(folder / f"{name_of(data, index)}.png", sheet)
                bar.advance(task)
                bar.console.print(f"{name_of(data, index)}: {line}", markup=False, highlight=False)
        say(f"{counted(len(pictures), 'image')} in {folder}")

    def video(self, path: Path, folder: Path, count: int | None) -> None:
        """Each frame annotated twice, into one video."""
        target = folder / f"{path.stem}.mp4"
        with opened_video(path) as (frames, rate, known), self._running(count or known or None) as (running, bar, task):
            with VideoWriter(target, rate) as writer:
                wanted = itertools.islice(frames, count)
                while chunk := list(itertools.islice(wanted, FRAMES_AT_ONCE)):
                    for sheet, _ in self._annotated(running, chunk):
                        writer.write(sheet)
                        bar.advance(task)
            if not running.pictures:
                raise ValueError(f"{path}: there is no frame in it")
        say(f"{counted(running.pictures, 'frame')} in {target}")

    @contextmanager
    def _running(self, total: int | None) -> Iterator[tuple[RunningModel, Progress, Any]]:
        """The model behind its pipeline, a bar for what goes through, and at the end the rate."""
        title = self.entry.title
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=errors, transient=True) as bar:
            task = bar.add_task(f"building {title} ({self.whose})", total=total)
            with running_model(
                self.entry,
                self.reference,
                card=self.card,
                executor=self.executor,
                precision=self.precision,
                resolution=self.resolution,
            ) as running:
                bar.update(task, description=f"{title} ({self.whose})")
                yield running, bar, task
        say(f"{title}, {self.whose}, {self.executor}: {running.pictures_per_second:.1f} fps {_speed_of(running)}")

    def _annotated(self, running: RunningModel, pictures: Sequence[Picture]) -> Iterator[tuple[Picture, str]]:
        """The images side by side, and what is on them in a line."""
        prepared = [prepare(self.entry, picture, self.resolution) for picture in pictures]
        images = [image for image, _ in prepared]
        expected, found = [reference_outputs(self.reference, image) for image in images], running.run(images)
        for picture, (_, placement), outputs in zip(pictures, prepared, zip(expected, found, strict=True), strict=True):
            yield annotated(self.entry, picture, placement, outputs, self.names, running.model.device, self.threshold)


def annotated(
    entry: ModelEntry,
    picture: Picture,
    placement: Any,
    outputs: tuple[Any, Any],
    names: Sequence[str],
    device: Any,
    threshold: float | None = None,
) -> tuple[Picture, str]:
    """PyTorch's answer and the card's, drawn into the image side by side and printed in a line."""
    task = TASKS[entry.task]
    answers = [task.prediction(each, placement, threshold) for each in outputs]
    drawn = [task.drawn(picture, answer, names) for answer in answers]
    said = [task.describe(answer, names) for answer in answers]
    panels = [("PyTorch, float32", drawn[0]), (card_name(device), drawn[1])]
    if entry.task == "segmentation":
        panels.insert(0, ("image", drawing.shown(picture)))
    line = said[1] if said[0] == said[1] else f"{said[1]} (PyTorch: {said[0]})"
    return drawing.side_by_side(panels), line


def _speed_of(running: RunningModel) -> str:
    return CPU if hasattr(running.model.device, "card") else "on the card"
