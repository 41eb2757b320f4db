# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn zoo`: the architectures that are there, and how they do on a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import output
from tt_cnn.cli.tables import Column, Listing, numbers, texts

if TYPE_CHECKING:
    from tt_cnn.zoo import Architecture

Card = Annotated[str | None, typer.Option("--card", help="The card whose stored results are shown. [default: n150]")]
Filter = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="TEXT",
        help="Only architectures with this text in name, family, title or task; repeatable, all must match.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the architectures as JSON.")]


def zoo(card: Card = None, filters: Filter = None, as_json: AsJson = False) -> None:
    """List the architectures of the zoo: family, task, paper, published parameters and multiply-adds.

    Where results were stored for the card, their predicted rates, accuracy and memory are shown, too.

    \b
    tt-cnn zoo
    tt-cnn zoo --filter detection --filter yolo
    tt-cnn compare zoo:mobilenet_v2 zoo:ghostnet     brings them up and compares them
    """
    from tt_cnn.reports.words import counted
    from tt_cnn.virtual.arch import card_by_name
    from tt_cnn.virtual.devices.opening import option
    from tt_cnn.zoo import architecture, list_architectures
    from tt_cnn.zoo.stored import stored_results

    name = card_by_name(option("card", card)).name
    found = [each for each in map(architecture, list_architectures()) if _matches(each, filters or [])]
    if not found:
        raise ValueError(f"no architecture has {' and '.join(map(repr, filters or []))}; `tt-cnn zoo` shows all")
    results = {each.name: row for each in found if (row := stored_results().get(each.name, {}).get(name))}
    if as_json:
        print(json.dumps([_as_data(each, results.get(each.name)) for each in found], indent=1))
        return
    _table(found, results, name).show()
    known = f"results on {name} of {len(results)}, predicted" if results else f"no results are stored for {name}"
    output.print(f"{counted(len(found), 'architecture')}; {known}", markup=False, highlight=False)
    output.print("tt-cnn compare zoo:NAME brings one up and says how it does", markup=False, highlight=False)


def _matches(found: Architecture, texts: list[str]) -> bool:
    said = " ".join((found.name, found.family, found.title, found.task)).lower()
    return all(text.lower() in said for text in texts)


def _table(found: list[Architecture], results: Mapping[str, Mapping[str, Any]], card: str) -> Listing:
    published = (
        Column("family", expendable=3),
        Column("task", expendable=1),
        Column("input", expendable=1),
        Column("paper", expendable=4, folds=True),
        Column("parameters, M", right=True, expendable=2),
        Column("multiply-adds, G", right=True),
    )
    reached = numbers(f"fps on {card}", "end to end", "lowest PCC", "in torch") if results else ()
    table = Listing((*texts("name"), *published, *reached))
    for each in found:
        own = (each.name, each.family, each.task, "x".join(map(str, each.input_shape)), each.paper)
        size = (_number(each.parameters), _number(each.gmacs))
        table.add(*own, *size, *(_figures(results.get(each.name)) if results else ()))
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _figures(row: Mapping[str, Any] | None) -> tuple[str, ...]:
    if row is None:
        return ("", "", "", "")
    if "failed" in row:
        return ("fails", "", "", "")
    rates = (f"{row[key]:.0f}" if key in row else "-" for key in ("device_fps", "fps"))
    return (*rates, f"{min(row['pcc'].values()):.4f}", str(len(row["fallbacks"])))


def _as_data(found: Architecture, row: Mapping[str, Any] | None) -> dict[str, Any]:
    plain = {name: value for name, value in asdict(found).items() if name != "factory"}
    return plain | ({"results": row} if row is not None else {})
