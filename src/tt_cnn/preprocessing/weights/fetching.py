"""Files from the web: with a progress bar, taken up again where they broke off, checked, and never half there."""

from __future__ import annotations

import http.client
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from tt_cnn.preprocessing.weights.checksums import WrongChecksum, verify

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

    What has come so far is kept in `<destination>.part`, and the next call goes on from there.
    """
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError(f"{url!r} is no address of the web; it must begin with https:// or http://")
    if destination.exists():
        return check_present(destination, sha256)
    destination.parent.mkdir(parents=True, exist_ok=True)
    part = destination.with_name(f"{destination.name}.part")
    with _progress(console) as progress:
        task = progress.add_task(destination.name, total=None)
        _transfer_patiently(url, part, lambda done, total: progress.update(task, completed=done, total=total))
    return finish(part, destination, sha256)


def finish(part: Path, destination: Path, sha256: str) -> str:
    """Check a file that has come whole, and give it its name."""
    try:
        found = verify(part, sha256)
    except WrongChecksum as error:
        part.unlink()
        raise WrongChecksum(f"what came as {destination.name} was thrown away. {error}") from error
    os.replace(part, destination)
    return found


def check_present(path: Path, sha256: str) -> str:
    try:
        return verify(path, sha256)
    except WrongChecksum as error:
        raise WrongChecksum(f"{path} is there already, but {error}; move it away to fetch it anew") from error


def _transfer_patiently(url: str, part: Path, show: Any) -> None:
    for attempt in range(ATTEMPTS):
        try:
            _transfer(url, part, show)
            return
        except _BrokenOff as error:
            if attempt == ATTEMPTS - 1:
                raise ConnectionError(f"{error}; what has come is kept, run it again to go on from there") from error


def _transfer(url: str, part: Path, show: Any) -> None:
    """One connection: append to what is there if the server can, else begin again."""
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": "tt-cnn", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        response = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == _NOT_SATISFIABLE and have:
            if _total(error.headers.get("Content-Range")) != have:
                part.unlink()
                raise _BrokenOff(f"{url}: what was kept is no part of the file") from error
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
        start = have if goes_on else 0
        length = response.headers.get("Content-Length")
        _receive(response, part, start, None if length is None else start + int(length), show)


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
