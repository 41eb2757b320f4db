# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn zoo`: the architectures that are there, and how they do on a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tt_cnn.cli.console import say
from tt_cnn.cli.tables import Column, Listing

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
    _listed(found, results, name).show()
    for line in _failures(results):
        say(line)
    known = (
        f"results on {name} of {len(results)}, predicted; in parentheses, where eight of ten such models would be"
        if results
        else f"no results are stored for {name}"
    )
    say(f"{counted(len(found), 'architecture')}; {known}")
    say("tt-cnn compare zoo:NAME brings one up and says how it does")


def _matches(found: Architecture, texts: list[str]) -> bool:
    said = " ".join((found.name, found.family, found.title, found.task)).lower()
    return all(text.lower() in said for text in texts)


def _listed(found: list[Architecture], results: Mapping[str, Mapping[str, Any]], card: str) -> Listing:
    """What was stored stands before what was published; of a narrow terminal, what tells most is kept."""
    stored = (
        Column(f"device fps on {card}", right=True),
        Column("end to end", right=True, expendable=1),
        Column("best batch", right=True, expendable=2),
        Column("lowest PCC", right=True),
        Column("L1 peak, KB", right=True, expendable=4),
        Column("in torch", right=True, expendable=3),
    )
    listing = Listing(
        (
            Column("name"),
            Column("family", expendable=8),
            Column("task", expendable=6),
            Column("input", expendable=5),
            *(stored if results else ()),
            Column("paper", expendable=9, folds=True),
            Column("parameters, M", right=True, expendable=7),
            Column("multiply-adds, G", right=True, expendable=7),
        )
    )
    for each in found:
        listing.add(
            *(each.name, each.family, each.task, "x".join(map(str, each.input_shape))),
            *(_figures(results.get(each.name), len(stored)) if results else ()),
            *(each.paper, _number(each.parameters), _number(each.gmacs)),
        )
    return listing


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _figures(row: Mapping[str, Any] | None, count: int) -> tuple[str, ...]:
    if row is None:
        return ("",) * count
    if "failed" in row:
        return ("fails", *[""] * (count - 1))
    best = row.get("rates", {}).get(str(row.get("best_batch")))
    return (
        _rate(row, "device_fps"),
        _rate(row, "fps"),
        "-" if best is None else f"{best['fps']:.0f} at {row['best_batch']}",
        f"{min(row['pcc'].values()):.4f}",
        f"{row['l1_peak'] / 1024:.0f}",
        str(len(row["fallbacks"])),
    )


def _rate(row: Mapping[str, Any], key: str) -> str:
    if key not in row:
        return "-"
    low, high = row[f"{key}_band"]
    return f"{row[key]:.0f} ({low:.0f} to {high:.0f})"


def _failures(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{name} fails: {row['failed']}" for name, row in results.items() if "failed" in row]


def _as_data(found: Architecture, row: Mapping[str, Any] | None) -> dict[str, Any]:
    plain = {name: value for name, value in asdict(found).items() if name != "factory"}
    return plain | ({"results": row} if row is not None else {})
