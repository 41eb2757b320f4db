# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn compare`: several models or cards side by side."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tt_cnn.cli.console import errors, output
from tt_cnn.cli.model_options import Executor
from tt_cnn.cli.tables import Column, Listing

if TYPE_CHECKING:
    from torch import Tensor

    from tt_cnn.models import ModelEntry
    from tt_cnn.reports.profile import Profile
    from tt_cnn.reports.side_by_side import Compared

FAILED = 1
ZOO = "zoo:"
_EXPENDABLE = {"l1_small_size": 5, "parameters, M": 4, "multiply-adds, G": 3, "L1 peak, KB": 2}
"""Columns that a narrow terminal goes without, the greatest number first."""

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="A model of the package, an architecture of the zoo (zoo:NAME where both have one), a folder that was "
        "brought up as package:ENTRY, or a saved profile: its folder or its profile.json.",
    ),
]
Cards = Annotated[
    list[str] | None,
    typer.Option("--card", help="The virtual card; several times for several cards. [default: n150]"),
]
Batch = Annotated[
    int | None, typer.Option("--batch", min=1, help="Images of an input. [default: the model's smallest]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the rows as JSON.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")]


def compare(
    models: Models,
    cards: Cards = None,
    batch: Batch = None,
    executor: Executor = "trace+2cq",
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Compare models or cards: predicted fps on the device and end to end, memory, multiply-adds, parameters.

    Every model is profiled on every card, once; a saved profile is taken as it is. An architecture of the zoo is
    brought up first, with seeded weights and without the optimiser. A row that fails says why, and the exit status is 1
    then.

    \b
    tt-cnn compare yolov4 vanilla_unet
    tt-cnn compare resnet50 zoo:mobilenet_v2 squeezenet1_1 --card n150 --card p150
    tt-cnn compare net:ENTRY out/profile/yolov4-n150 --markdown
    """
    from tt_cnn.reports.side_by_side import markdown
    from tt_cnn.virtual.arch import card_by_name
    from tt_cnn.virtual.devices.opening import option

    if as_json and as_markdown:
        raise ValueError("--json and --markdown were both given; choose one")
    names = list(dict.fromkeys(option("card", card) for card in (cards or [None])))  # type: ignore[list-item]
    for name in names:
        card_by_name(name)  # an error here, not in every row
    rows = [row for model in dict.fromkeys(models) for row in _rows(model, names, batch, executor)]
    if as_json:
        print(json.dumps([row.as_data() for row in rows], indent=1))
    elif as_markdown:
        print(markdown(rows))
    else:
        _show(rows)
    if any(row.failed for row in rows):
        raise typer.Exit(FAILED)


def _rows(model: str, cards: list[str], batch: int | None, executor: str) -> Iterator[Compared]:
    from tt_cnn.reports.profile_json import load_profile
    from tt_cnn.reports.side_by_side import compared

    if _is_profile(model):
        yield compared(model, load_profile(Path(model)))
        return
    architecture = _architecture(model)
    if architecture is not None:
        yield from (_row(model, card, partial(_of_zoo, architecture, card, batch or 1, executor)) for card in cards)
        return
    with _known(model) as entry:
        size = batch or min(entry.batch_sizes)
        yield from (_row(model, card, partial(_of_entry, entry.name, card, size, executor)) for card in cards)


def _is_profile(model: str) -> bool:
    """A folder may have the name of a model."""
    from tt_cnn.reports.profile_json import FILE

    path = Path(model)
    return path.is_file() or (path / FILE).is_file() or (path.is_dir() and len(path.parts) > 1)


def _row(model: str, card: str, profiled: Callable[[], Profile]) -> Compared:
    """Why a model has no figures on a card is part of the comparison."""
    from tt_cnn.reports.side_by_side import Compared, compared
    from tt_cnn.virtual.errors.card_error import DoesNotFit

    errors.print(f"{model} on {card} ...", markup=False, highlight=False)
    try:
        return compared(model, profiled())
    except (DoesNotFit, ValueError) as error:
        return Compared(model, card, failed=str(error).strip().split("\n")[0])


def _of_entry(name: str, card: str, batch: int, executor: str) -> Profile:
    from tt_cnn.reports.profile import profile_model

    return profile_model(name, card=card, executor=executor, batch_size=batch)


def _of_zoo(name: str, card: str, batch: int, executor: str) -> Profile:
    from tt_cnn.bringup.architectures import fitted_architecture

    work = fitted_architecture(name, card, batch, _weights(name))
    if work.facts.fallbacks:
        raise ValueError("parts of it run in torch on the host, whose time is not predicted")
    with work.entry() as entry:
        return _of_entry(entry.name, card, batch, executor)


@lru_cache(maxsize=1)
def _weights(name: str) -> Mapping[str, Tensor]:
    """The same on every card."""
    from tt_cnn.zoo import create_architecture

    return create_architecture(name).state_dict()


def _architecture(model: str) -> str | None:
    """Of the zoo; the package's own models come first."""
    from tt_cnn.models import list_models
    from tt_cnn.zoo import architecture, list_architectures

    if model.startswith(ZOO):
        return architecture(model.removeprefix(ZOO)).name
    if ":" in model or model in list_models():
        return None
    return model if model in list_architectures() else None


@contextmanager
def _known(model: str) -> Iterator[ModelEntry]:
    """Somebody's own model is known for its rows alone, since it may have the name of another."""
    from tt_cnn.models import model_entry
    from tt_cnn.models.entry_names import own_entry
    from tt_cnn.models.registry import registered

    if ":" not in model:
        try:
            yield model_entry(model)
        except ValueError as error:
            raise ValueError(f"{error}; architectures are listed by `tt-cnn zoo`") from error
        return
    with registered(own_entry(model)) as entry:
        yield entry


def _show(rows: list[Compared]) -> None:
    from tt_cnn.reports.side_by_side import HEADINGS, KEYS

    expendable = dict(_EXPENDABLE)
    if len({row.executor for row in rows if not row.failed}) == 1:
        expendable["executor"] = 1
    columns = (Column(one, right=i >= KEYS, expendable=expendable.get(one, 0)) for i, one in enumerate(HEADINGS))
    table = Listing(tuple(columns), "predicted", keys=KEYS)
    for row in rows:
        if not row.failed:
            table.add(*row.cells())
    if table.rows:
        table.show()
    for row in rows:
        if row.failed:
            output.print(f"{row.name} on {row.card}: {row.failed}", markup=False, highlight=False, soft_wrap=True)
