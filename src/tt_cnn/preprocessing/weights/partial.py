# SPDX-License-Identifier: Apache-2.0
"""What has come of a file: kept for one address and one state of the file there, and held by one process at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

try:
    import fcntl
except ImportError:  # no locks there: what has come is not shared between processes
    fcntl = None  # type: ignore[assignment]


def address_digest(address: str) -> str:
    """What stands for an address in the names of files: it may hold a password or be of any length."""
    return hashlib.sha256(address.encode()).hexdigest()[:12]


def validator_of(headers: Mapping[str, str]) -> str:
    """By what a server knows again which state of a file it has sent; nothing where it says nothing firm."""
    tag = headers.get("ETag") or ""
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified") or ""


class Part:
    """The first bytes of a file, and the validator that came with them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._beside = path.with_name(f"{path.name}.validator")

    @property
    def size(self) -> int:
        return self.path.stat().st_size

    @property
    def validator(self) -> str:
        with contextlib.suppress(OSError):
            text = self._beside.read_text(encoding="latin-1")
            return text if text.isprintable() else ""  # it goes into a request
        return ""

    def begin_again(self, validator: str = "") -> None:
        """Forget what has come; what comes next belongs to this validator."""
        os.truncate(self.path, 0)
        self._beside.write_text(validator, encoding="latin-1")

    def drop(self) -> None:
        for path in (self.path, self._beside):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def part_of(address: str, destination: Path) -> Iterator[Part]:
    """The part that was kept for the address, for this process alone: another one that wants it gets one of its own."""
    kept = destination.with_name(f"{destination.name}.{address_digest(address)}.part")
    lock = _locked(kept)
    if lock is not None:
        try:
            yield Part(kept)
        finally:
            if not kept.exists() or not kept.stat().st_size:
                Part(kept).drop()
            os.close(lock)
        return
    handle, name = tempfile.mkstemp(dir=destination.parent, prefix=f"{kept.name}.")
    os.close(handle)
    part = Part(Path(name))
    try:
        yield part
    finally:
        part.drop()


def _locked(path: Path) -> int | None:
    """The open file, locked; None where another process has locked it."""
    while fcntl is not None:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(handle).st_ino == path.stat().st_ino:
                return handle
        except FileNotFoundError:  # whoever had it has finished and given it its name; ours is a new one
            pass
        except OSError:
            os.close(handle)
            return None
        os.close(handle)
    return None
