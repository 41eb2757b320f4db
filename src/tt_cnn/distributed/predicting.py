# SPDX-License-Identifier: Apache-2.0
"""What a model says of many images: made by actors, written here, each image once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tt_cnn.cache_folder import replacing
from tt_cnn.distributed.cluster import Cluster
from tt_cnn.distributed.evaluating import Unreadable, as_actors_find_it
from tt_cnn.distributed.operator import Run, Work, map_on_cards
from tt_cnn.distributed.prediction_folder import PredictionFolder
from tt_cnn.distributed.prediction_rows import ROWS, Row
from tt_cnn.distributed.sources import Source
from tt_cnn.evaluation.chosen_data import generated_names
from tt_cnn.evaluation.class_names import names_of
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.evaluation.side_by_side import classes_of
from tt_cnn.evaluation.tasks import TASKS
from tt_cnn.evaluation.weights import chosen_weights, reference_with
from tt_cnn.models import ModelEntry
from tt_cnn.models.entry_names import entry_of
from tt_cnn.models.running import running_model


@contextmanager
def opened(
    model: str, weights: str | None, threshold: float | None, batch: int, options: Mapping[str, Any]
) -> Iterator[Run]:
    """On an actor: the model on its card. Sources in, rows out."""
    entry = entry_of(model)
    reference, _ = reference_with(entry, weights)
    names = names_of(reference, classes_of(entry, reference, options["resolution"]), generated_names(entry))
    task, rows = TASKS[entry.task], ROWS[entry.task]
    with running_model(entry, reference, batch_size=batch, **options) as running:

        def run(sources: list[Source]) -> list[Row | Unreadable]:
            read = [_read(entry, source, running.model.resolution) for source in sources]
            inputs = [each[0] for each in read if not isinstance(each, Unreadable)]
            outputs = iter(running.run(inputs) if inputs else [])
            found: list[Row | Unreadable] = []
            for source, each in zip(sources, read, strict=True):
                if isinstance(each, Unreadable):
                    found.append(each)
                    continue
                height, width = each[1].picture
                prediction = task.prediction(next(outputs), each[1], threshold)
                size = {"image": source.name, "width": width, "height": height}
                found.append({**size, **rows.row(prediction, names)})
            return found

        yield run


def _read(entry: ModelEntry, source: Source, resolution: tuple[int, int]) -> Any:
    try:
        return prepare(entry, source.read(), resolution)
    except (ValueError, OSError) as error:
        return Unreadable(str(error))


@dataclass
class PredictionJob:
    entry: ModelEntry
    work: Work
    sources: Sequence[Source]
    output: Path
    folder: PredictionFolder
    left: dict[int, Source]
    """Without those that an earlier run of the same job has done."""
    categories: tuple[str, ...]
    _unreadable: dict[int, str] = field(default_factory=dict)

    def run(
        self,
        cluster: Cluster,
        actors: int | None = None,
        progress: Callable[[int], None] = lambda pictures: None,
        lost: Callable[[int], None] = lambda pictures: None,
    ) -> None:
        """Do what is left. Ended in its midst, what came so far is kept."""
        try:
            for number, outcome in map_on_cards(cluster, self.work, self.left, actors=actors, lost=lost):
                if isinstance(outcome, Unreadable):
                    self._unreadable[number] = outcome.words
                else:
                    self.folder.add(outcome)
                progress(1)
        finally:
            self.folder.flush()

    def finish(self) -> list[str]:
        """Put the result where it was asked for; what could not be read is returned, in the images' order."""
        unreadable = [words for _, words in sorted(self._unreadable.items())]
        self.folder.note_unreadable(unreadable)
        if _is_coco(self.output):
            self._write_coco()
            shutil.rmtree(self.folder.folder)
        return unreadable

    def _write_coco(self) -> None:
        rows = {row["image"]: row for row in self.folder.rows()}
        images: list[Row] = []
        annotations: list[Row] = []
        for number, source in enumerate(self.sources, 1):
            row = rows.get(source.name)
            if row is None:
                continue
            images.append({"id": number, "file_name": source.name, "width": row["width"], "height": row["height"]})
            for each in ROWS[self.entry.task].annotations(row):
                annotations.append({"id": len(annotations) + 1, "image_id": number, **each})
        categories = [{"id": number, "name": name} for number, name in enumerate(self.categories)]
        content = {"images": images, "annotations": annotations, "categories": categories}
        with replacing(self.output) as beside:
            beside.write_text(json.dumps(content), encoding="utf-8")


def prediction_job(
    model: str,
    weights: str | None,
    options: Mapping[str, Any],
    sources: Sequence[Source],
    output: Path,
    *,
    threshold: float | None = None,
    threads: int = 1,
) -> PredictionJob:
    """Everything that a user may have got wrong is found here, before an actor is started."""
    entry = entry_of(model)
    rows = ROWS[entry.task]
    if _is_coco(output):
        if not rows.in_coco:
            raise ValueError(f"{output}: COCO's format has no place for classes of images; name a folder, for Parquet")
        if output.exists():
            raise FileExistsError(f"{output} is there already; name another file")
    entry.check_resolution(options["resolution"])
    _check_names(sources)
    whose = chosen_weights(entry, weights).words
    reference, _ = reference_with(entry, weights)
    categories = names_of(reference, classes_of(entry, reference, options["resolution"]), generated_names(entry))
    batch = max(entry.batch_sizes)
    chosen = {"model": model, "weights": as_actors_find_it(weights), "options": dict(options)}
    about = {"model": model, "weights": whose, "threshold": threshold, **options}
    folder = PredictionFolder(_parts_folder(output), about, rows.schema())
    done = folder.names()
    left = {number: source for number, source in enumerate(sources) if source.name not in done}
    work = Work(f"{__name__}:opened", {**chosen, "threshold": threshold, "batch": batch}, batch=batch, threads=threads)
    return PredictionJob(entry, work, sources, output, folder, left, categories)


def _check_names(sources: Sequence[Source]) -> None:
    known: set[str] = set()
    for source in sources:
        if source.name in known:
            raise ValueError(f"there are two images with the name {source.name}; predictions could not be told apart")
        known.add(source.name)


def _is_coco(output: Path) -> bool:
    return output.suffix == ".json"


def _parts_folder(output: Path) -> Path:
    return output.with_name(f"{output.name}.parts") if _is_coco(output) else output
