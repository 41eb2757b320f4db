# SPDX-License-Identifier: Apache-2.0
"""A progress bar, where one is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")


def track(items: Iterable[Item], what: str, total: int | None, show: bool) -> Iterable[Item]:
    """The items, with a bar on stderr that counts them; without a total it shows how many there were."""
    return _with_bar(items, what, total) if show else items


def _with_bar(items: Iterable[Item], what: str, total: int | None) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield from bar.track(items, total=total, description=what)
