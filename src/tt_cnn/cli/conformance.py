# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn conformance`: replay recorded answers of the real library and count what agrees."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tt_cnn.cli import conformance_live as live_options
from tt_cnn.cli.console import errors, say
from tt_cnn.cli.tables import Listing, numbers, texts
from tt_cnn.conformance.corpus import CorpusError, read_corpora
from tt_cnn.conformance.tally import FIELDS, Count, Difference, Tally

EACH = "each"
"""In place of a family's name: all of them, one by one."""


class Grouping(str, Enum):
    op = "op"
    family = "family"


@dataclass(frozen=True)
class Limit:
    """At least so many percent of a field's records must agree, of all or of one family."""

    field: str
    percent: float
    family: str | None = None


Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Corpora: .jsonl or .jsonl.gz of plans, .npz of conversions, folders of values or networks, "
        "or folders of such files (not of folders).",
        show_default=False,
    ),
]
Ops = Annotated[
    list[str] | None,
    typer.Option(
        "--op", metavar="NAME", help="Only calls of this op, by its TT-NN name; repeatable.", show_default=False
    ),
]
Show = Annotated[
    int,
    typer.Option("--show", metavar="N", min=0, help="Show the first N differences of --field (of each, without it)."),
]
Field = Annotated[
    str | None, typer.Option("--field", metavar="FIELD", help=f"The field for --show: {', '.join(FIELDS)}.")
]
Minimum = Annotated[
    list[str] | None,
    typer.Option(
        "--min",
        metavar="[FAMILY:]FIELD=PERCENT",
        help="Exit with status 1 where fewer records agree: of all, of one family (norm:status=98), "
        "or of each family (each:status=98); repeatable.",
        show_default=False,
    ),
]
By = Annotated[Grouping, typer.Option("--by", help="A row of the table for each op, or for each family of calls.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")]


def conformance(
    files: Files = None,
    op: Ops = None,
    show: Show = 0,
    field: Field = None,
    minimum: Minimum = None,
    by: By = Grouping.op,
    as_json: AsJson = False,
    live: live_options.Programs = None,
    python: live_options.Python = None,
    card: live_options.Card = None,
    resolution: live_options.Resolution = None,
    batch: live_options.Batch = None,
    precision: live_options.Precision = "tuned",
    values: live_options.Values = False,
    program_cache: live_options.Cached = False,
    record: live_options.Record = None,
    config: live_options.Config = None,
) -> None:
    """Compare the virtual card with the real TT-NN: with recorded answers of it, or with the library itself (--live).

    Every record is called again on a clean virtual card. For each field (the table's columns) the records that agree
    with the recording are counted. Ops that the virtual card does not have yet disagree in status, and are listed.

    With --live a program runs on the real library (a card, or a mocked one, where no kernel runs) and on the virtual
    card of the same kind, each in a process of its own, and what both do is compared step by step: names, program
    factories, specs, addresses, circular and dataflow buffers, allocations, what is given back, the peaks of calls.
    Models run eagerly and twice: traces hide their steps. The program cache is off, so that every program shows its
    buffers.

    Exit status: 0 when every --min is met (--live: when every step agrees), 1 when not, 2 when a file, a program or an
    option cannot be understood.

    Examples:

    \b
    tt-cnn conformance ops.jsonl.gz values/ --op concat --min status=97 --show 3 --field message
    tt-cnn conformance golden/second --by family --min each:status=98 --min cbs=99
    tt-cnn conformance --live resnet50 --batch 16 --python ~/ttnn/bin/python
    tt-cnn conformance --live vanilla_unet --config out/optimize/vanilla_unet-n150/config.json
    tt-cnn conformance --live my_model.py --python ~/ttnn/bin/python --show 10 --field cbs
    """
    if live:
        choice = live_options.LiveChoice(
            python, card, resolution, batch, precision, values, program_cache, record, config, bool(files)
        )
        return live_options.run_live(live, choice, show, field, as_json)
    if not files:
        raise typer.BadParameter("Missing argument: name corpora, or a program with --live", param_hint="FILE")
    limits = _limits(minimum or [])
    if field is not None and field not in FIELDS:
        raise typer.BadParameter(f"{field!r} is not one of {', '.join(FIELDS)}", param_hint="--field")
    try:
        tally = _replay(files, op or [])
    except CorpusError as error:
        errors.print(f"tt-cnn conformance: {error}", markup=False, highlight=False)
        raise typer.Exit(2) from error
    if op and not tally.records:
        errors.print(f"no record calls {' or '.join(op)}", markup=False, highlight=False)
    missed = [line for limit in limits for line in _shortfalls(tally, limit)]
    if as_json:
        print(json.dumps(tally.as_json() | {"missed": missed, "differences": _shown_as_json(tally, show, field)}))
    else:
        counts_table(tally, by).show()
        _print_missing(tally)
        for difference in _shown(tally, show, field):
            _print_difference(difference)
        for line in missed:
            errors.print(f"missed  {line}", markup=False, highlight=False)
    if missed:
        raise typer.Exit(1)


def _shortfalls(tally: Tally, limit: Limit) -> list[str]:
    """What a field lacks of its minimum. One that no record has lacks nothing."""
    groups = {"": tally.counts}
    if limit.family == EACH:
        groups = {f"{family}: ": counts for family, counts in tally.by_family.items()}
    elif limit.family is not None:
        if limit.family not in tally.by_family:
            return [f"{limit.family}: no record is of this family"]
        groups = {f"{limit.family}: ": tally.by_family[limit.family]}
    lines = []
    for name, counts in groups.items():
        count = counts.get(limit.field, Count())
        if count.percent < limit.percent:
            lines.append(f"{name}{limit.field}: {count.percent:.2f} % agree, {limit.percent:g} % are needed")
    return lines


def _limits(given: list[str]) -> list[Limit]:
    limits = []
    for text in given:
        name, _, percent = text.partition("=")
        family, colon, field = name.rpartition(":")
        try:
            limit = Limit(field, float(percent), family if colon else None)
        except ValueError:
            limit = Limit(field, -1)
        if field not in FIELDS or not 0 <= limit.percent <= 100 or (colon and not family):
            raise typer.BadParameter(
                f"{text!r} is not [FAMILY:]FIELD=PERCENT with a field of {', '.join(FIELDS)}", param_hint="--min"
            )
        limits.append(limit)
    return limits


def _replay(files: list[Path], ops: list[str]) -> Tally:
    """All corpora are read before the first is replayed, so that a bad name is reported at once."""
    from tt_cnn.conformance.replay import replay, select

    corpora = [corpus for file in files for corpus in read_corpora(file)]
    tally = Tally()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        for corpus in corpora:
            task = progress.add_task(corpus.path.name, total=len(select(corpus, ops)))
            for _ in replay(corpus, tally, ops):
                progress.advance(task)
    return tally


def counts_table(tally: Tally, by: Grouping = Grouping.op) -> Listing:
    """A row an op or family, a column a field, and the sums below."""
    from tt_cnn.reports.words import counted

    fields = tally.fields()
    table = Listing((*texts(by.value), *numbers(*fields)), counted(tally.records, "record"))
    groups = tally.by_op if by is Grouping.op else tally.by_family
    for group, counts in sorted(groups.items()):
        table.add(group, *(_cell(counts.get(name)) for name in fields))
    table.add_section()
    table.add("all", *(_cell(tally.counts.get(name)) for name in fields), bold=True)
    return table


def _cell(count: Count | None) -> str:
    return "" if count is None else f"{_percent(count)} %\n{count.agree}/{count.total}"


def _percent(count: Count) -> str:
    """Never rounded up to 100 %."""
    return "100" if count.agree == count.total else f"{min(count.percent, 99.9):.1f}"


def _print_missing(tally: Tally) -> None:
    if tally.missing:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(tally.missing.items()))
        say(f"not implemented: {names}")


def _shown(tally: Tally, show: int, field: str | None) -> list[Difference]:
    names = [field] if field else tally.fields()
    return [difference for name in names for difference in tally.differences.get(name, [])[:show]]


def _shown_as_json(tally: Tally, show: int, field: str | None) -> list[dict[str, Any]]:
    return [vars(difference) for difference in _shown(tally, show, field)]


def _print_difference(difference: Difference) -> None:
    say(f"\n{difference.place}  {difference.op}  {difference.field}", "bold")
    for name in ("case", "recorded", "found"):
        value = getattr(difference, name)
        text = value if isinstance(value, str) else json.dumps(value)
        say(f"  {name:9}{text}")
