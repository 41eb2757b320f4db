# SPDX-License-Identifier: Apache-2.0
"""Files from the web: with a progress bar, taken up again where they broke off, checked, and never half there."""

from __future__ import annotations

import http.client
import os
import re
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from tt_cnn.cache_folder import to_disk
from tt_cnn.preprocessing.weights.checksums import WrongChecksum, sha256_of, verify
from tt_cnn.preprocessing.weights.partial import Part, address_digest, part_of, validator_of

TIMEOUT = 30.0
"""Seconds without a byte after which a connection counts as lost."""
ATTEMPTS = 4
"""How often a transfer that breaks off is taken up again before the user is asked to."""
_BLOCK = 1 << 18
_PARTIAL, _ENTIRE, _NOT_SATISFIABLE = 206, 200, 416


class HostUnreachable(ConnectionError):
    """There is no way to the host, or it does not answer."""


class _BrokenOff(ConnectionError):
    """The connection ended before the file did."""


def fetch(url: str, destination: Path, sha256: str = "", *, console: Console | None = None) -> str:
    """Get a file and return its SHA-256; one that is there already is only checked.

    What has come so far is kept beside the destination. The next call for the same address goes on from there, where
    the server says by an ETag or a date that the file is still the same, or where `sha256` will tell.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url!r} is not a web address; it must begin with https:// or http://")
    if destination.exists():
        return _check_address(url, destination, sha256)
    destination.parent.mkdir(parents=True, exist_ok=True)
    with part_of(url, destination) as part, _progress(console) as progress:
        task = progress.add_task(destination.name, total=None)
        show = partial(_show, progress, task)
        _transfer_patiently(url, part, bool(sha256), show)
        found = finish(part.path, destination, sha256)
    if not sha256:
        _record(destination).write_text(address_digest(url))
    return found


def finish(part: Path, destination: Path, sha256: str) -> str:
    """Check a file that has come whole, and give it its name; one that came meanwhile is not overwritten."""
    try:
        found = verify(part, sha256)
    except WrongChecksum as error:
        part.unlink()
        raise WrongChecksum(f"what came as {destination.name} was thrown away. {error}") from error
    to_disk(part)
    try:
        os.link(part, destination)
    except FileExistsError as error:
        if sha256_of(destination) != found:
            raise FileExistsError(f"{destination} came from elsewhere meanwhile, and is another file") from error
    except OSError:  # a file system without links
        os.replace(part, destination)
    part.unlink(missing_ok=True)
    return found


def check_present(path: Path, sha256: str) -> str:
    try:
        return verify(path, sha256)
    except WrongChecksum as error:
        raise WrongChecksum(f"{path} is there already, but {error}; move it away to fetch it again") from error


def _check_address(url: str, path: Path, sha256: str) -> str:
    """Without a checksum, a file is the one that is wanted if it came from the same address, or was put there."""
    record = _record(path)
    if not sha256 and record.exists() and record.read_text() != address_digest(url):
        raise FileExistsError(f"{path} is there already, from another address; move it away to fetch this one")
    return check_present(path, sha256)


def _record(path: Path) -> Path:
    """A file beside one that came without a checksum: where it came from."""
    return path.with_name(f".{path.name}.address")


def _transfer_patiently(url: str, part: Part, will_tell: bool, show: Any) -> None:
    for attempt in range(ATTEMPTS):
        try:
            _transfer(url, part, will_tell, show)
            return
        except _BrokenOff as error:
            if attempt == ATTEMPTS - 1:
                goes_on = will_tell or part.validator
                kept = "what has come is kept, run it again to go on from there" if goes_on else _MUST_BEGIN_AGAIN
                raise ConnectionError(f"{error}; {kept}") from error


_MUST_BEGIN_AGAIN = (
    "run it again to fetch it from its beginning: the server does not say by what to know the same file again"
)


def _transfer(url: str, part: Part, will_tell: bool, show: Any) -> None:
    """One connection: append to what is there if the server has the same file and can, else begin again."""
    known = part.validator
    have = part.size if known or will_tell else 0
    headers = {"User-Agent": "tt-cnn"}
    if have:
        headers |= {"Range": f"bytes={have}-"} | ({"If-Range": known} if known else {})
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == _NOT_SATISFIABLE and have:
            if _total(error.headers.get("Content-Range")) != have or _is_another(known, error.headers):
                part.begin_again()
                raise _BrokenOff(f"{url}: what was kept is not a part of the file") from error
            return
        raise OSError(f"{url}: the server answers {error.code} ({error.reason})") from error
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise HostUnreachable(
            f"{urlsplit(url).hostname} cannot be reached: {getattr(error, 'reason', error)}"
        ) from error
    with response:
        goes_on = response.status == _PARTIAL and _first_byte(response.headers.get("Content-Range")) == have
        if response.status != _ENTIRE and not goes_on:
            raise OSError(f"{url}: the server answers {response.status} ({response.reason})")
        if goes_on and _is_another(known, response.headers):
            part.begin_again()
            raise _BrokenOff(f"{url}: the file has changed meanwhile")
        start = have if goes_on else 0
        if not goes_on:
            part.begin_again(validator_of(response.headers))
        length = response.headers.get("Content-Length")
        _receive(response, part.path, start, None if length is None else start + int(length), show)


def _is_another(known: str, headers: Any) -> bool:
    now = validator_of(headers)
    return bool(known and now and known != now)


def _receive(response: Any, part: Path, done: int, total: int | None, show: Any) -> None:
    with part.open("ab" if done else "wb") as file:
        show(done, total)
        try:
            while block := response.read(_BLOCK):
                file.write(block)
                done += len(block)
                show(done, total)
        except (http.client.HTTPException, TimeoutError, ConnectionError) as error:
            raise _BrokenOff(f"the connection broke off after {done} bytes{_of(total)}") from error
    if total is not None and done < total:
        raise _BrokenOff(f"the connection broke off after {done} bytes{_of(total)}")


def _show(progress: Progress, task: TaskID, done: int, total: int | None) -> None:
    progress.update(task, completed=done, total=total)


def _of(total: int | None) -> str:
    return "" if total is None else f" of {total}"


def _first_byte(content_range: str | None) -> int | None:
    found = re.match(r"bytes (\d+)-", content_range or "")
    return int(found[1]) if found else None


def _total(content_range: str | None) -> int | None:
    found = re.search(r"/(\d+)$", content_range or "")
    return int(found[1]) if found else None


def _progress(console: Console | None) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=console or Console(stderr=True),
    )
