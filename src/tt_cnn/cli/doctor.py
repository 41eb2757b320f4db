# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn doctor`: what is there, what is missing, and the command that brings it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.tables import Column, Listing, texts

Needs = Annotated[
    list[str] | None,
    typer.Option(
        "--need",
        metavar="NAME",
        help="Fail too where this is missing: compiler, card, gpu, graphviz, or an extra (cpu, eval, ...); repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the checks as JSON.")]
UNHEALTHY = 1


def doctor(need: Needs = None, as_json: AsJson = False) -> None:
    """Look at this installation: versions, TT-NN in use, card, compiler, extras, cache folder.

    What is optional and missing is listed with the command that brings it. Exit status: 0 where all that TT-CNN needs
    is there, 1 where something of that, or something that --need names, is missing or broken.

    Examples: tt-cnn doctor, or tt-cnn doctor --need compiler --need eval --json
    """
    from tt_cnn.cli.health import examine

    checks = examine(frozenset(need or ()))
    unknown = sorted(set(need or ()) - {one.name for one in checks})
    if unknown:
        known = ", ".join(one.name for one in checks if not one.always_needed)
        raise typer.BadParameter(f"{', '.join(unknown)} is nothing that can be needed; there are {known}")
    failed = [one for one in checks if one.failed]
    if as_json:
        print(json.dumps({"healthy": not failed, "checks": [{**asdict(one), "failed": one.failed} for one in checks]}))
    else:
        table = Listing((*texts("what", "state"), Column("found", folds=True), Column("how to get it", folds=True)))
        for one in checks:
            table.add(
                one.name, one.state, one.found, one.how, bold=one.failed, dim=one.state == "missing" and not one.failed
            )
        table.show()
        for one in failed:
            say(f"{one.name} is {one.state}: {one.found}" + (f"; {one.how}" if one.how else ""), console=errors)
        if not failed:
            say("all that TT-CNN needs is there")
    if failed:
        raise typer.Exit(UNHEALTHY)
