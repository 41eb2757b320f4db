"""`tt-cnn conformance`: replay recorded answers of the real library and count what agrees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from tt_cnn.cli import conformance_live as live_options
from tt_cnn.cli.console import errors, output
from tt_cnn.conformance.corpus import CorpusError, read_corpus
from tt_cnn.conformance.tally import FIELDS, Count, Difference, Tally

Files = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="FILE",
        help="Corpora: .jsonl or .jsonl.gz of plans, .npz of conversions, folders of values or networks.",
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
        metavar="FIELD=PERCENT",
        help="Exit with status 1 where fewer records agree; repeatable.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the counts as JSON.")]


def conformance(
    files: Files = None,
    op: Ops = None,
    show: Show = 0,
    field: Field = None,
    minimum: Minimum = None,
    as_json: AsJson = False,
    live: live_options.Programs = None,
    python: live_options.Python = None,
    card: live_options.Card = None,
    resolution: live_options.Resolution = None,
    batch: live_options.Batch = 1,
    precision: live_options.Precision = "tuned",
    values: live_options.Values = False,
    program_cache: live_options.Cached = False,
    record: live_options.Record = None,
) -> None:
    """Compare the virtual card with the real TT-NN: with recorded answers of it, or with the library itself (--live).

    Every record is called again on a clean virtual card. For each field (the table's columns) the records that agree
    with the recording are counted; calls of ops that the virtual card does not have yet are listed apart.

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
    tt-cnn conformance --live resnet50 --batch 16 --python ~/ttnn/bin/python
    tt-cnn conformance --live my_model.py --python ~/ttnn/bin/python --show 10 --field cbs
    """
    if live:
        choice = live_options.LiveChoice(
            python, card, resolution, batch, precision, values, program_cache, record, bool(files)
        )
        return live_options.run_live(live, choice, show, field, as_json)
    if not files:
        raise typer.BadParameter("name corpora, or a program with --live", param_hint="FILE")
    limits = _limits(minimum or [])
    if field is not None and field not in FIELDS:
        raise typer.BadParameter(f"{field!r} is none of {', '.join(FIELDS)}", param_hint="--field")
    try:
        tally = _replay(files, op or [])
    except CorpusError as error:
        errors.print(f"tt-cnn conformance: {error}", markup=False, highlight=False)
        raise typer.Exit(2) from error
    if op and not tally.records:
        errors.print(f"no record calls {' or '.join(op)}", markup=False, highlight=False)
    missed = [line for name, percent in limits.items() if (line := _shortfall(tally, name, percent))]
    if as_json:
        print(json.dumps(tally.as_json() | {"missed": missed, "differences": _shown_as_json(tally, show, field)}))
    else:
        output.print(counts_table(tally))
        _print_missing(tally)
        for difference in _shown(tally, show, field):
            _print_difference(difference)
        for line in missed:
            errors.print(f"missed  {line}", markup=False, highlight=False)
    if missed:
        raise typer.Exit(1)


def _shortfall(tally: Tally, field: str, percent: float) -> str:
    """What a field lacks of its minimum. One that no record has lacks nothing, unless calls could not be made."""
    count = tally.counts.get(field, Count())
    if count.total == 0 and tally.missing:
        return f"{field}: nothing could be compared, {percent:g} % are needed"
    return f"{field}: {count.percent:.2f} % agree, {percent:g} % are needed" if count.percent < percent else ""


def _limits(given: list[str]) -> dict[str, float]:
    limits = {}
    for text in given:
        name, _, percent = text.partition("=")
        try:
            limits[name] = float(percent)
        except ValueError:
            limits[name] = -1
        if name not in FIELDS or not 0 <= limits[name] <= 100:
            raise typer.BadParameter(
                f"{text!r} is not FIELD=PERCENT with a field of {', '.join(FIELDS)}", param_hint="--min"
            )
    return limits


def _replay(files: list[Path], ops: list[str]) -> Tally:
    """All corpora are read before the first is replayed, so that a bad name is told at once."""
    from tt_cnn.conformance.replay import replay, select

    corpora = [read_corpus(file) for file in files]
    tally = Tally()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=errors, transient=True) as progress:
        for corpus in corpora:
            task = progress.add_task(corpus.path.name, total=len(select(corpus, ops)))
            for _ in replay(corpus, tally, ops):
                progress.advance(task)
    return tally


def counts_table(tally: Tally) -> Table:
    """A row an op, a column a field, and the sums below."""
    table = Table(title=f"{tally.records} records", title_justify="left")
    table.add_column("op")
    fields = tally.fields()
    for name in fields:
        table.add_column(name, justify="right")
    for op, counts in sorted(tally.by_op.items()):
        table.add_row(op, *(_cell(counts.get(name)) for name in fields))
    table.add_section()
    table.add_row("all", *(_cell(tally.counts.get(name)) for name in fields), style="bold")
    return table


def _cell(count: Count | None) -> str:
    return "" if count is None else f"{_percent(count)} %\n{count.agree}/{count.total}"


def _percent(count: Count) -> str:
    """Never rounded up to 100 %."""
    return "100" if count.agree == count.total else f"{min(count.percent, 99.9):.1f}"


def _print_missing(tally: Tally) -> None:
    if tally.missing:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(tally.missing.items()))
        output.print(f"not implemented, not counted: {names}", markup=False, highlight=False)


def _shown(tally: Tally, show: int, field: str | None) -> list[Difference]:
    names = [field] if field else tally.fields()
    return [difference for name in names for difference in tally.differences.get(name, [])[:show]]


def _shown_as_json(tally: Tally, show: int, field: str | None) -> list[dict[str, Any]]:
    return [vars(difference) for difference in _shown(tally, show, field)]


def _print_difference(difference: Difference) -> None:
    output.print(
        f"\n{difference.place}  {difference.op}  {difference.field}", style="bold", markup=False, highlight=False
    )
    for name in ("case", "recorded", "found"):
        value = getattr(difference, name)
        text = value if isinstance(value, str) else json.dumps(value)
        output.print(f"  {name:9}{text}", markup=False, highlight=False, soft_wrap=True)
