# SPDX-License-Identifier: Apache-2.0
"""A program on the real library, then on the virtual card that is like the real one, and both compared."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tt_cnn.conformance.live.comparison import Comparison, compare
from tt_cnn.conformance.live.launching import LiveError, Recorded, ask_cases, real_interpreter, record
from tt_cnn.conformance.live.programs import ProgramOptions
from tt_cnn.conformance.live.recording import CardFacts
from tt_cnn.conformance.statistics import pcc
from tt_cnn.virtual.arch import CARDS, Card, card_by_name


class NoSuchCard(LiveError):
    """No virtual card is like the real one, or none has the name that was asked for."""


class UnlikeCards(LiveError):
    """The virtual card that was asked for is not like the real one: other cores, so other plans."""


@dataclass(frozen=True)
class LiveOptions:
    program: ProgramOptions
    python: Path | None = None
    card: str | None = None
    program_cache: bool = False
    record: Path | None = None


@dataclass(frozen=True)
class ValueAgreement:
    name: str
    pcc: float
    equal: int
    total: int


@dataclass
class LiveRun:
    """One program on both sides."""

    program: str
    real: str
    virtual: str
    comparison: Comparison
    notes: list[str]
    """What was not compared, and why."""
    ends: str = ""
    """The error with which the program ends on the real library."""
    values: list[ValueAgreement] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Values have no limit of their own here: how far they may differ, the model's gates say."""
        return self.comparison.agrees

    def as_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "real": self.real,
            "virtual": self.virtual,
            "ends": self.ends,
            "notes": self.notes,
            "values": [asdict(value) for value in self.values],
            "files": [str(file) for file in self.files],
            **self.comparison.as_json(),
        }


def run_both(program: str, options: LiveOptions) -> LiveRun:
    asked = None if options.card is None else _named(options.card)
    python = real_interpreter(options.python)
    real = record(program, options.program, python=python, library="ttnn", program_cache=options.program_cache)
    card = card_like(real.recording.card) if asked is None else _if_like(asked, real.recording.card)
    virtual = record(
        program,
        options.program,
        python=sys.executable,
        library="virtual",
        card=card,
        program_cache=options.program_cache,
        calls=options.record is not None,
    )
    mocked = ", mocked" if real.recording.mocked else ""
    run = LiveRun(
        program,
        f"{real.recording.library} on {card}{mocked}",
        virtual.recording.library,
        compare(real.recording, virtual.recording),
        list(real.recording.notes),
        f"{real.recording.error}: {real.recording.message}" if real.recording.error else "",
    )
    if options.program.values:
        run.values = compare_values(real, virtual)
        if not run.values:
            run.notes.append(
                "values: a mocked card computes none" if real.recording.mocked else "values: the program returns none"
            )
    if options.record is not None:
        run.files = write_corpora(options.record, program, card, real, virtual.calls, python)
    return run


def write_corpora(
    folder: Path, program: str, card: str, real: Recorded, calls: Sequence[dict[str, Any]], python: str
) -> list[Path]:
    """What the real library did in the run, and a corpus of its calls, each asked again on a clean card."""
    folder.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"\W+", "_", program.removesuffix(".py")).strip("_")
    steps, corpus = folder / f"steps_{name}_{card}.json.gz", folder / f"calls_{name}_{card}.jsonl.gz"
    real.recording.save(steps)
    results = ask_cases(calls, python=python)
    lines = [json.dumps({"card": card, "case": c, "result": r}) for c, r in zip(calls, results, strict=True)]
    corpus.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode()))
    files = [steps, corpus]
    if real.values:
        files.append(folder / f"outputs_{name}_{card}.npz")
        arrays: dict[str, Any] = dict(real.values)
        np.savez(files[-1], **arrays)
    return files


def card_like(card: CardFacts) -> str:
    """The virtual card with this architecture, grid and number of chips."""
    for name, virtual in CARDS.items():
        if virtual.arch.name == card.arch and virtual.grid == card.grid and virtual.chips == card.chips:
            return name
    known = ", ".join(f"{n} ({c.arch.name}, {c.grid[0]}x{c.grid[1]})" for n, c in CARDS.items())
    raise NoSuchCard(
        f"no virtual card is like the real one: {_described(card)}; there are {known}. --card NAME-COLUMNSxROWS gives "
        "one of these another grid"
    )


def _named(name: str) -> Card:
    try:
        return card_by_name(name)
    except ValueError as error:
        raise NoSuchCard(f"--card: {error}") from error


def _if_like(asked: Card, card: CardFacts) -> str:
    """The name of a virtual card that was asked for; a program may open fewer chips than it has."""
    if (asked.arch.name, asked.grid) == (card.arch, card.grid) and asked.chips >= card.chips:
        return asked.name
    raise UnlikeCards(
        f"--card {asked.name} is {_described(CardFacts(asked.arch.name, asked.grid, asked.chips))}, but the real "
        f"library ran on {_described(card)}: their plans differ by nature. Without --card the virtual card is the one "
        "like the real one"
    )


def _described(card: CardFacts) -> str:
    chips = f"{card.chips} chip{'s' * (card.chips > 1)}"
    return f"{card.arch} with {chips} and a grid of {card.grid[0]}x{card.grid[1]} cores"


def compare_values(real: Recorded, virtual: Recorded) -> list[ValueAgreement]:
    """Outputs by their names, where both sides have them."""
    found = []
    for name, value in real.values.items():
        other = virtual.values.get(name)
        if other is None or other.shape != value.shape:
            continue
        mine, theirs = torch.from_numpy(value), torch.from_numpy(other)
        same = int((mine.view(torch.int32) == theirs.view(torch.int32)).sum())
        found.append(ValueAgreement(name, pcc(mine, theirs), same, value.size))
    return found
