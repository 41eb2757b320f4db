# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn conformance --live`: a program on the real library and on the virtual card, compared step by step."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.tables import Listing, numbers, texts

if TYPE_CHECKING:
    from tt_cnn.conformance.live.comparison import Comparison, LiveDifference
    from tt_cnn.conformance.live.running import LiveRun

Programs = Annotated[
    list[str] | None,
    typer.Option(
        "--live",
        metavar="PROGRAM",
        help="Run a program on the real TT-NN and on the virtual card and compare every step: a model of the package, "
        "module:ENTRY (a ModelEntry, or a function of an open device), or script.py; repeatable.",
        show_default=False,
    ),
]
Python = Annotated[
    Path | None,
    typer.Option(
        "--python",
        metavar="PATH",
        help="--live: the Python interpreter with the real ttnn. [default: this one]",
        show_default=False,
    ),
]
Card = Annotated[
    str | None,
    typer.Option(
        "--card", help="--live: the virtual card; it must be like the real one. [default: that one]", show_default=False
    ),
]
Resolution = Annotated[
    str | None,
    typer.Option("--resolution", metavar="HxW", help="--live: of a model's input.", show_default=False),
]
Batch = Annotated[
    int | None,
    typer.Option(
        "--batch", min=1, help="--live: images of a model's input. [default: the model's first]", show_default=False
    ),
]
Precision = Annotated[str, typer.Option("--precision", help="--live: of a model, tuned or bfloat16.")]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="--live: settings of a model's layers, as tt-cnn optimize writes them.",
        show_default=False,
    ),
]
Values = Annotated[
    bool,
    typer.Option("--values", help="--live: compute, and compare outputs by PCC and bit by bit. Needs a card."),
]
Cached = Annotated[
    bool,
    typer.Option(
        "--program-cache",
        help="--live: leave the program cache on. Programs that are found in it do not report their buffers.",
    ),
]
Record = Annotated[
    Path | None,
    typer.Option(
        "--record",
        metavar="DIR",
        help="--live: write the real library's answers there: steps of the run, and a corpus of its calls.",
        show_default=False,
    ),
]

DIFFERS, CANNOT_RUN = 1, 2


@dataclass(frozen=True)
class LiveChoice:
    """What the options of the command ask for."""

    python: Path | None
    card: str | None
    resolution: str | None
    batch: int | None
    precision: str
    values: bool
    program_cache: bool
    record: Path | None
    config: Path | None = None
    with_files: bool = False


def run_live(programs: Sequence[str], choice: LiveChoice, show: int, field: str | None, as_json: bool) -> None:
    """Run, compare and print all programs; the exit status says whether all of them agree."""
    from tt_cnn.conformance.live.comparison import FIELDS
    from tt_cnn.conformance.live.launching import LiveError
    from tt_cnn.conformance.live.programs import ProgramNotFound, ProgramOptions
    from tt_cnn.conformance.live.running import LiveOptions, run_both

    if choice.with_files:
        raise typer.BadParameter("--live runs programs and replays no files; do one after the other", param_hint="FILE")
    if field is not None and field not in FIELDS:
        raise typer.BadParameter(f"{field!r} is not one of {', '.join(FIELDS)}", param_hint="--field")
    options = LiveOptions(
        ProgramOptions(
            _size(choice.resolution),
            choice.batch,
            _precision(choice.precision),
            values=choice.values,
            config=_file(choice.config),
        ),
        choice.python,
        choice.card,
        choice.program_cache,
        choice.record,
    )
    runs = []
    for program in programs:
        try:
            with errors.status(f"{program} on the real library and on the virtual card"):
                runs.append(run_both(program, options))
        except (LiveError, ProgramNotFound) as error:
            errors.print(f"tt-cnn conformance: {error}", markup=False, highlight=False, soft_wrap=True)
            raise typer.Exit(CANNOT_RUN) from error
        if not as_json:
            _print_run(runs[-1], show, field)
    if as_json:
        print(json.dumps({"programs": [run.as_json() for run in runs]}))
    elif len(runs) > 1:
        equal, steps = sum(r.comparison.equal for r in runs), sum(r.comparison.steps for r in runs)
        say(f"all {len(runs)} programs: {equal} of {steps} steps equal")
    if not all(run.agrees for run in runs):
        raise typer.Exit(DIFFERS)


def _size(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    height, cross, width = text.lower().partition("x")
    if not (cross and height.isdecimal() and width.isdecimal()):
        raise typer.BadParameter(f"{text!r} is not like 320x320, height first", param_hint="--resolution")
    return int(height), int(width)


def _file(path: Path | None) -> str | None:
    """The real library runs in another process: the whole path."""
    if path is not None and not path.is_file():
        raise typer.BadParameter(f"{path}: no such file", param_hint="--config")
    return None if path is None else str(path.resolve())


def _precision(text: str) -> str:
    if text not in ("tuned", "bfloat16"):
        raise typer.BadParameter(f"{text!r} is neither tuned nor bfloat16", param_hint="--precision")
    return text


def _print_run(run: LiveRun, show: int, field: str | None) -> None:
    found = run.comparison
    say(f"{run.program}: {found.equal} of {found.steps} steps equal ({run.real} and {run.virtual})", style="bold")
    counts_table(found).show()
    if run.ends:
        say(f"the program ends with {run.ends}")
    for note in run.notes:
        say(f"not compared: {note}")
    for value in run.values:
        say(f"values of {value.name}: PCC {value.pcc:.6f}, {value.equal} of {value.total} bit for bit")
    wanted = [d for d in found.differences if field in (None, d.field)]
    for difference in wanted[: show or _FIRST]:
        print_difference(difference)
    if len(wanted) > (show or _FIRST):
        say(f"... and {len(wanted) - (show or _FIRST)} more differences; --show N shows more, --field FIELD chooses")
    for file in run.files:
        say(f"written: {file}")


_FIRST = 3
"""Differences that are shown by default."""


def counts_table(found: Comparison) -> Listing:
    """A row an op, a column a field, and the sums below."""
    fields = found.fields()
    table = Listing((*texts("op"), *numbers(*fields)))
    for op, counts in sorted(found.by_op.items()):
        table.add(op, *(_cell(counts.get(name)) for name in fields))
    table.add_section()
    table.add("all", *(_cell(found.counts.get(name)) for name in fields), bold=True)
    return table


def _cell(count: Any) -> str:
    return "" if count is None else f"{count.agree}/{count.total}"


def print_difference(difference: LiveDifference) -> None:
    """Where it is, and what both sides have there; of lists, what only one side has."""
    where = f"step {difference.step}, {difference.op}" if difference.op else "the end"
    layer = f" of {difference.layer}" if difference.layer else ""
    say(f"\n{where} ({difference.call}{layer}): {_MEANINGS[difference.field]} differ", style="bold")
    mine, other = difference.real, difference.virtual
    if isinstance(mine, list) and isinstance(other, list):
        common = [one for one in mine if one in other]
        mine, other = ([one for one in side if one not in common] or side for side in (mine, other))
    for side, value in (("the real library", mine), ("the virtual card", other)):
        say(f"  {side:17} {_plain(value)}")


_MEANINGS = {
    "status": "how the program ends",
    "step": "the steps",
    "factory": "the program factories",
    "inputs": "specs of inputs",
    "outputs": "specs of outputs",
    "addresses": "addresses of inputs and outputs",
    "cbs": "circular buffers [address, bytes, borrowed, cores]",
    "staging": "dataflow buffers [bytes, borrowed, cores]",
    "buffers": "allocations [type, address, bytes per bank]",
    "frees": "memory given back [type, address, bytes per bank]",
    "peak": "peaks of the call",
}


def _plain(value: Any) -> str:
    if value is None:
        return "has no such step"
    return value if isinstance(value, str) else json.dumps(value)
