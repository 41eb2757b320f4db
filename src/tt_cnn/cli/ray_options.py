# SPDX-License-Identifier: Apache-2.0
"""`--ray [ADDRESS]` and its options, of the commands that can use several cards and machines."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from tt_cnn.cli.console import errors, say

if TYPE_CHECKING:
    from tt_cnn.distributed.cluster import Cluster

FLAG = "--ray"
UNSAID = "default"
"""The address where `--ray` has none: RAY_ADDRESS's cluster, or a Ray of our own."""
_ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.\-\[\]:]+:\d+")

Ray = Annotated[
    str | None,
    typer.Option(
        FLAG,
        metavar="[ADDRESS]",
        help="Run on actors of Ray, with a card each: on this machine, or on the cluster of RAY_ADDRESS or ADDRESS "
        "(auto, local, HOST:PORT or ray://HOST:PORT).",
    ),
]
Actors = Annotated[
    int | None, typer.Option("--actors", min=1, help="With --ray: how many. [default: what cards and cores allow]")
]
Threads = Annotated[int | None, typer.Option("--threads", min=1, help="With --ray: cores of each actor. [default: 1]")]


class RayCommand(TyperCommand):
    """A command whose `--ray` may have an address behind it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, with_addresses(args))


def with_addresses(arguments: list[str]) -> list[str]:
    """`--ray` joined with the address behind it; what else is behind it belongs to the command."""
    joined: list[str] = []
    rest = iter(range(len(arguments)))
    for index in rest:
        text = arguments[index]
        following = arguments[index + 1] if index + 1 < len(arguments) else ""
        if text == "--":
            return joined + arguments[index:]
        if text == FLAG and _ADDRESS.fullmatch(following):
            next(rest)
            joined.append(f"{FLAG}={following}")
        else:
            joined.append(f"{FLAG}={UNSAID}" if text == FLAG else text)
    return joined


@dataclass(frozen=True)
class RayPlace:
    """Where actors run, and how."""

    address: str | None
    actors: int | None
    threads: int

    def connected(self) -> AbstractContextManager[Cluster]:
        from tt_cnn.distributed.cluster import connected

        return connected(self.address)

    def tell_lost(self, items: int) -> None:
        say(f"an actor or a node died: {items} images are done again", console=errors)


def ray_place(ray: str | None, actors: int | None, threads: int | None) -> RayPlace | None:
    """None where the command runs without Ray. A missing package is told before anything is made."""
    if ray is None:
        for name, value in (("--actors", actors), ("--threads", threads)):
            if value is not None:
                raise typer.BadParameter(f"{name} belongs to {FLAG}, which is not there")
        return None
    if ray != UNSAID and not _ADDRESS.fullmatch(ray):
        raise typer.BadParameter(f"{FLAG} is {ray!r}; it must be auto, local, HOST:PORT or ray://HOST:PORT")
    from tt_cnn.distributed.extra import require

    require("ray", FLAG)
    return RayPlace(None if ray == UNSAID else ray, actors, threads or 1)
