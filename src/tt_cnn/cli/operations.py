# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn ops`: what the virtual card has of TT-NN, and what is missing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Annotated

import typer

from tt_cnn.cli.console import say
from tt_cnn.cli.tables import Listing, numbers, texts
from tt_cnn.cli.usage import group_of, is_there, usages

Missing = Annotated[bool, typer.Option("--missing", help="Only what the virtual card does not have yet.")]
UsedBy = Annotated[
    str | None,
    typer.Option("--used-by", metavar="GROUP", help="Only what a group of models uses: a to g, or a model's name."),
]
Everything = Annotated[bool, typer.Option("--all", help="Every op of TT-NN, not only what vision models use.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the list as JSON.")]


@dataclass(frozen=True)
class Row:
    name: str
    kind: str
    there: bool
    uses: int


def operations(
    missing: Missing = False, used_by: UsedBy = None, everything: Everything = False, as_json: AsJson = False
) -> None:
    """List what the virtual card has of TT-NN, and what is missing.

    The list holds the names of TT-NN 0.81.1 that vision models use, most used first; --all holds every op.

    Examples: tt-cnn ops --missing --used-by yolov4, or tt-cnn ops --all --json
    """
    try:
        rows = _every_op() if everything else _used_names(used_by)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--used-by") from error
    shown = [row for row in rows if not (missing and row.there)]
    there = sum(row.there for row in rows)
    if as_json:
        print(json.dumps({"names": len(rows), "there": there, "list": [vars(row) for row in shown]}))
        return
    what = "ops of TT-NN 0.81.1" if everything else "names of TT-NN that " + (used_by or "vision models") + " use"
    say(f"{there} of {len(rows)} {what} are there")
    if shown:
        _table(shown, with_uses=not everything).show()


def _used_names(used_by: str | None) -> list[Row]:
    from tt_cnn.virtual.ttnn.missing import real_names

    group = group_of(used_by) if used_by else None
    kinds = real_names()
    return [
        Row(usage.name, kinds.get(usage.name, "value"), is_there(usage.name), usage.uses(group))
        for usage in usages()
        if usage.defined and usage.uses(group)
    ]


def _every_op() -> list[Row]:
    from tt_cnn.virtual.ttnn.missing import real_names

    uses = {usage.name: usage.uses() for usage in usages()}
    return [Row(name, kind, is_there(name), uses.get(name, 0)) for name, kind in real_names().items() if kind == "op"]


def _table(rows: list[Row], with_uses: bool) -> Listing:
    table = Listing((*texts("name", "kind", "there"), *numbers(*["uses"] * with_uses)))
    for row in rows:
        cells = [f"ttnn.{row.name}", row.kind, "yes" if row.there else "no"]
        table.add(*cells, *([str(row.uses)] if with_uses else []), dim=not row.there)
    return table
