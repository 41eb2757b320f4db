# SPDX-License-Identifier: Apache-2.0
"""From a model's name, or a file, or an address, to a checked file in the cache folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from rich.console import Console

from tt_cnn.cache_folder import VARIABLE
from tt_cnn.preprocessing.weights.cache_folder import cache_folder, keep
from tt_cnn.preprocessing.weights.checksums import verify
from tt_cnn.preprocessing.weights.fetching import HostUnreachable, fetch
from tt_cnn.preprocessing.weights.google_drive import fetch_from_google_drive
from tt_cnn.preprocessing.weights.packages import file_in_package
from tt_cnn.preprocessing.weights.partial import address_digest
from tt_cnn.preprocessing.weights.sources import Source, sources_of


@dataclass(frozen=True)
class Obtained:
    """A file, its SHA-256, and how many of its digits were known beforehand."""

    path: Path
    sha256: str
    known_digits: int


def obtain(
    model: str,
    *,
    file: str | None = None,
    path: Path | None = None,
    url: str | None = None,
    console: Console | None = None,
) -> Obtained:
    """The public checkpoint of a model, or the one `file` names; a local one (`path`); or one from anywhere (`url`)."""
    if path is not None and url is not None:
        raise ValueError("a path and an address were both given; the weights come from one of them")
    if path is not None:
        return _given(model, path)
    if url is not None:
        name = _file_name(url)
        known = _checksum(model, name)
        place = name if known else f"{address_digest(url)}/{name}"  # another address may have another file of that name
        return _fetched(model, url, place, known, console)
    return _published(_source(model, file), console)


def _source(model: str, file: str | None) -> Source:
    known = sources_of(model)
    if not known:
        raise ValueError(f"no public weights of {model} are known; give a file with --path or an address with --url")
    if file is None:
        return known[0]
    for source in known:
        if file == source.file:
            return source
    raise ValueError(f"no file {file!r} of {model} is known; there are {', '.join(source.file for source in known)}")


def _published(source: Source, console: Console | None) -> Obtained:
    if source.package:
        path = file_in_package(source.package, source.file)
        return Obtained(path, verify(path, source.sha256), len(source.sha256))
    if not source.google_drive:
        return _fetched(source.model, source.url, source.file, source.sha256, console)
    destination = _place(source.model, source.file)
    try:
        found = fetch_from_google_drive(source.google_drive, destination, source.sha256)
    except (HostUnreachable, ImportError) as error:
        raise type(error)(_elsewhere(error, source.model, source.url, source.file)) from error
    return Obtained(destination, found, len(source.sha256))


def _fetched(model: str, url: str, name: str, sha256: str, console: Console | None) -> Obtained:
    destination = _place(model, name)
    try:
        found = fetch(url, destination, sha256, console=console)
    except HostUnreachable as error:
        raise HostUnreachable(_elsewhere(error, model, url, name)) from error
    return Obtained(destination, found, len(sha256))


def _given(model: str, path: Path) -> Obtained:
    if not path.is_file():
        raise FileNotFoundError(f"{path}: there is no such file")
    known = _checksum(model, path.name)
    found = verify(path, known)
    destination = _place(model, path.name)
    keep(path, destination)
    return Obtained(destination, found, len(known))


def _place(model: str, name: str) -> Path:
    """Where a file goes, in a folder that is there."""
    path = cache_folder() / model / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"{path.parent}, where weights are kept, cannot be made ({error.strerror}); {VARIABLE} names another folder"
        ) from error
    return path


def _checksum(model: str, name: str) -> str:
    return next((source.sha256 for source in sources_of(model) if source.file == name), "")


def _file_name(url: str) -> str:
    name = PurePosixPath(unquote(urlsplit(url).path)).name
    if not name or name.startswith("."):
        raise ValueError(f"{url!r} ends in no file name; fetch it by other means and give it with --path")
    return name


def _elsewhere(error: Exception, model: str, url: str, name: str) -> str:
    name = PurePosixPath(name).name
    return (
        f"{error}\nDownload {name} on a machine that can, from {url}\nand hand it over: "
        f"tt-cnn weights {model} --path {name}"
    )
