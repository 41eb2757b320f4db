# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn weights`: a model's public checkpoint, fetched or handed over, checked, and kept."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from tt_cnn.cli.console import errors, say
from tt_cnn.cli.tables import Column, Listing, texts

Model = Annotated[str | None, typer.Argument(help="A model's name; without one, the known files are listed.")]
GivenPath = Annotated[
    Path | None, typer.Option("--path", metavar="FILE", help="A checkpoint on this machine, instead of fetching.")
]
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="Another address to fetch from.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the known files, or the one that was fetched, as JSON.")]
File = Annotated[str | None, typer.Option("--file", metavar="NAME", help="Which of the model's known files.")]


def weights(
    model: Model = None,
    path: GivenPath = None,
    url: Url = None,
    file: File = None,
    as_json: AsJson = False,
) -> None:
    """Fetch the public weights of a model into the cache folder, and see that they fit it.

    A transfer that broke off goes on where it stopped. Checksums are verified where they are known. Files are read
    without running anything in them. The folder is $TT_CNN_CACHE/weights, or ~/.cache/tt-cnn/weights.
    """
    if model is None:
        _list(as_json)
        return
    from tt_cnn.models import create_reference, model_entry
    from tt_cnn.preprocessing.weights.obtaining import obtain

    entry = model_entry(model)
    found = obtain(entry.name, file=file, path=path, url=url, console=errors)
    create_reference(entry.name, weights=found.path)
    if as_json:
        digits = found.known_digits
        print(json.dumps({"path": str(found.path), "sha256": found.sha256, "known_digits": digits}))
        return
    size = found.path.stat().st_size / 1e6
    say(f"{found.path} ({size:.1f} MB)")
    say(f"SHA-256 {found.sha256} ({_as_known(found.known_digits)})")
    say(f"it fits {entry.title}: create_reference({entry.name!r}, weights={str(found.path)!r})")


def _list(as_json: bool) -> None:
    from tt_cnn.preprocessing.weights import SOURCES

    if as_json:
        print(json.dumps([{**asdict(one), "sha256": one.sha256 or None} for one in SOURCES]))
        return
    table = Listing(
        (
            *texts("model", "file"),
            Column("what", folds=True),
            Column("SHA-256", expendable=1),
            Column("from", expendable=2),
        ),
        keys=2,
    )
    for source in SOURCES:
        digits = source.sha256[:8] + "…" if source.sha256 else "not known"
        table.add(source.model, source.file, source.description, digits, source.url)
    table.show()


def _as_known(digits: int) -> str:
    if not digits:
        return "none was known beforehand"
    return "as it must be" if digits == 64 else f"its first {digits} digits as they must be"
