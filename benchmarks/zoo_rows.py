# SPDX-License-Identifier: Apache-2.0
"""One architecture on cards: rows of `zoo.py`."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bringup_rows import Row, outcome, profile_figures
from code_version import code_version

from tt_cnn.bringup.architectures import architecture_work, load_state, same_model
from tt_cnn.bringup.bring_up import BringUp
from tt_cnn.bringup.chips import one_chip_of
from tt_cnn.reports.profile import profile_model
from tt_cnn.zoo import architecture, create_architecture

EXECUTOR = "trace+2cq"
OF_ROWS = ("tt_cnn.bringup.architectures", "tt_cnn.reports.profile")
APART = (
    *("tt_cnn.cli", "tt_cnn.conformance", "tt_cnn.evaluation", "tt_cnn.distributed", "tt_cnn.serving"),
    *("tt_cnn.bringup.imported", "tt_cnn.optimizer.steps", "tt_cnn.optimizer.graph", "tt_cnn.reports.html"),
)
"""Imported by what makes rows, and without a part in them: the optimiser's steps, pages, other sources of models."""
RATES = ("device_fps", "device_fps_band", "fps", "fps_band", "l1_peak")
"""What is reported of every batch."""


def row_version(name: str) -> str:
    """Of the code that has a part in the rows of an architecture."""
    family = f"tt_cnn.zoo.{architecture(name).family}"
    return code_version(
        *OF_ROWS, family, apart=APART, files=(Path(__file__), Path(__file__).with_name("bringup_rows.py"))
    )


@dataclass
class Batches:
    """The architecture by batch, loaded and exported once for all cards."""

    name: str
    works: dict[int, BringUp] = field(default_factory=dict)

    def work(self, card: str, batch: int = 1) -> BringUp:
        """Ready to be lowered."""
        before = self.works.get(batch)
        if before is not None:
            return same_model(before, card, batch)
        if batch == 1:
            made = architecture_work(self.name, card)
            with made.timed("load"):
                load_state(made, create_architecture(self.name).state_dict())
        else:
            made = same_model(self.works[1], card, batch)
        with made.timed("export"):
            made.export()
        self.works[batch] = made
        return made


@dataclass(frozen=True)
class Tried:
    """Which batches are tried beside 1."""

    batches: tuple[int, ...]
    """One after the other, until one is not faster on any card or does not fit."""
    seconds: float
    """No batch is begun when its chip has taken so long; 0 for no end."""


def architecture_rows(name: str, cards: Sequence[str], tried: Tried) -> Iterator[Row]:
    """A row for each card. What is brought up on one chip is what every card of such chips runs."""
    batches = Batches(name)
    chips: dict[str, list[str]] = {}
    for card in cards:
        chips.setdefault(one_chip_of(card), []).append(card)
    for chip, alike in chips.items():
        yield from _chip_rows(batches, chip, alike, tried)


def _chip_rows(batches: Batches, chip: str, cards: Sequence[str], tried: Tried) -> list[Row]:
    began = time.monotonic()
    stage, seconds = "load", {}
    shared: Row = {"input": "x".join(map(str, (1, *architecture(batches.name).input_shape)))}
    try:
        work = batches.work(chip)
        seconds = work.seconds
        for stage in ("lower", "fit"):
            with work.timed(stage):
                getattr(work, stage)()
        shared |= outcome(work, None)
    except Exception as error:  # rows say why, and the others go on
        shared |= {"failed": _why(stage, error), "traceback": traceback.format_exc()}
        seconds = {**seconds, "failed": round(time.monotonic() - began, 2)}
        return [_about(batches.name, card) | shared | {"seconds": seconds} for card in cards]
    rows = {card: _about(batches.name, card) | shared | _brought_up_on(chip, card) for card in cards}
    for card, row in rows.items():
        row["seconds"] = {stage: round(each, 2) for stage, each in seconds.items()} if card == cards[0] else {}
    if not work.facts.fallbacks:
        _add_rates(batches, work, rows, tried)
    return list(rows.values())


def _about(name: str, card: str) -> Row:
    found = architecture(name)
    return {
        "name": name,
        "card": card,
        "title": found.title,
        "family": found.family,
        "task": found.task,
        "paper": found.paper,
        "published_parameters": found.parameters,
        "published_gmacs": found.gmacs,
        "command": f"python benchmarks/zoo.py {name} --card {card}",
    }


def _brought_up_on(chip: str, card: str) -> Row:
    return {} if chip == card else {"brought_up_on": chip}


def _why(stage: str, error: Exception) -> str:
    return f"{stage}: {type(error).__name__}: {str(error).strip().split(chr(10))[0]}"


def _add_rates(batches: Batches, first: BringUp, rows: dict[str, Row], tried: Tried) -> None:
    """A batch has the arithmetic of batch 1, whose outputs were compared, and settings that were fitted for it."""
    rates: dict[str, dict[int, Row]] = {card: {} for card in rows}
    going, ended = list(rows), ""
    for batch in (1, *tried.batches):
        spent = sum(sum(row["seconds"].values()) for row in rows.values())
        if batch > 1 and tried.seconds and spent > tried.seconds:
            ended = f"batch {batch}: not tried, {spent:.0f} s were spent"
        if ended or not going:
            break
        began = time.monotonic()
        try:
            work = first if batch == 1 else _fitted(batches, first, batch)
        except Exception as error:  # a batch that does not fit ends the search, and says why
            ended = _why(f"batch {batch}", error)
            continue
        finally:
            _spend(rows[next(iter(rows))], "batches", began)
        for card in tuple(going):
            began = time.monotonic()
            try:
                found = figures(work, card)
            except Exception as error:
                ended = _why(f"profile of batch {batch}", error)
                rows[card] |= {"failed": ended, "traceback": traceback.format_exc()} if batch == 1 else {}
                going.remove(card)
                continue
            finally:
                _spend(rows[card], "profile", began)
            if batch == 1:
                rows[card] |= found
            elif found["fps"] <= max(each["fps"] for each in rates[card].values()):
                going.remove(card)
            rates[card][batch] = {key: found[key] for key in RATES}
    for card, row in rows.items():
        if rates[card]:
            best = max(rates[card], key=lambda size: rates[card][size]["fps"])
            by_batch = {str(size): each for size, each in rates[card].items()}
            row |= {"rates": by_batch, "best_batch": best, "batches_ended": ended}


def _fitted(batches: Batches, first: BringUp, batch: int) -> BringUp:
    assert first.arithmetic is not None
    work = batches.work(first.card, batch)
    work.lower()
    work.fit_in(first.arithmetic)
    return work


def _spend(row: Row, stage: str, began: float) -> None:
    row["seconds"][stage] = round(row["seconds"].get(stage, 0.0) + time.monotonic() - began, 2)


def figures(work: BringUp, card: str) -> Row:
    """Of the model on all chips of the card."""
    with work.entry() as entry:
        batch = work.input_shape[0]
        made = profile_model(
            entry.name, card=card, executor=EXECUTOR, batch_size=batch, reference=work.model, beside=()
        )
    return profile_figures(made)
