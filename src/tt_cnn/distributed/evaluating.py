# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn evaluate` on several cards: images are examined by actors, and summed up here in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tt_cnn.distributed.cluster import Cluster
from tt_cnn.distributed.operator import Run, Work, map_on_cards
from tt_cnn.evaluation.chosen_data import GENERATED, SKIMAGE, data_set, generated_names
from tt_cnn.evaluation.class_names import names_of
from tt_cnn.evaluation.side_by_side import Comparison, Examined, Sample, Sums, classes_of, examine
from tt_cnn.evaluation.weights import PUBLIC, SEEDED, SHIPPED, reference_with
from tt_cnn.models import ModelEntry
from tt_cnn.models.entry_names import entry_of
from tt_cnn.models.running import running_model


@dataclass(frozen=True)
class Unreadable:
    """An image that is left out, and why, with its path."""

    words: str


@dataclass(frozen=True)
class Evaluation:
    on: str
    comparison: Comparison
    unreadable: tuple[str, ...]


def evaluation_work(
    model: str,
    weights: str | None,
    data: str | None,
    count: int,
    options: Mapping[str, Any],
    threads: int = 1,
) -> Work:
    """Indexes of images in, what was seen in them out. The arguments are those of the command."""
    places = {"weights": as_actors_find_it(weights), "data": as_actors_find_it(data)}
    chosen = {"model": model, **places, "count": count, "options": dict(options)}
    return Work(f"{__name__}:opened", chosen, threads=threads)


def as_actors_find_it(text: str | None) -> str | None:
    """Files and folders by their whole paths: actors may be in another folder, of another machine."""
    if text is None or text in (GENERATED, SKIMAGE, SHIPPED, PUBLIC, SEEDED):
        return text
    return str(Path(text).absolute()) if Path(text).exists() else text


@contextmanager
def opened(model: str, weights: str | None, data: str | None, count: int, options: Mapping[str, Any]) -> Iterator[Run]:
    """On an actor: the model on its card, beside PyTorch."""
    entry = entry_of(model)
    reference, _ = reference_with(entry, weights)
    size = options["resolution"]
    names = names_of(reference, classes_of(entry, reference, size), generated_names(entry))
    pictures, _ = data_set(entry, data, names, count=count, resolution=size)

    def sample(index: int) -> Sample | Unreadable:
        try:
            return Sample.of(pictures, index)
        except (ValueError, OSError) as error:
            return Unreadable(str(error))

    with running_model(entry, reference, **options) as running:

        def run(indexes: list[int]) -> list[Examined | Unreadable]:
            samples = [sample(index) for index in indexes]
            readable = [each for each in samples if isinstance(each, Sample)]
            seen = iter(examine(entry, reference, running, readable) if readable else [])
            return [each if isinstance(each, Unreadable) else next(seen) for each in samples]

        yield run


def compare_on_cards(
    cluster: Cluster,
    work: Work,
    entry: ModelEntry,
    total: int,
    classes: int,
    *,
    actors: int | None = None,
    begins: Callable[[str], None] = lambda where: None,
    progress: Callable[[int], None] = lambda pictures: None,
    lost: Callable[[int], None] = lambda pictures: None,
) -> Evaluation:
    """The same sums as `compare` makes, in the same order. `begins` is told what the first card is called."""
    sums, unreadable, waiting = Sums(entry, classes), [], {}
    on, following = "", 0
    items = {index: index for index in range(total)}
    for index, outcome in map_on_cards(cluster, work, items, actors=actors, lost=lost):
        waiting[index] = outcome
        progress(1)
        while following in waiting:
            image = waiting.pop(following)
            following += 1
            if isinstance(image, Unreadable):
                unreadable.append(image.words)
                continue
            sums.add(image)
            if not on:
                on = image.on
                begins(on)
    if unreadable and not sums.pictures:
        raise ValueError(f"none of the {total} images can be read; the first: {unreadable[0]}")
    return Evaluation(on, sums.comparison(), tuple(unreadable))
