# SPDX-License-Identifier: Apache-2.0
"""The cache folder: $TT_CNN_CACHE, or ~/.cache/tt-cnn. Whatever is kept between runs goes through this module.

What is kept there is loaded, and some of it runs (compiled kernels). So a folder counts only while nobody else can
write to it; files are written whole or not at all; and where no folder will do, a private one takes its place that
goes with the process. Each reason for that is said once.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import shutil
import stat
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

VARIABLE = "TT_CNN_CACHE"
_SEAL = b"\ntt-cnn sha256 "
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class CacheWarning(UserWarning):
    """Nothing is kept for the next run, and why."""


def place(name: str = "") -> Path:
    """Where things are kept, or would be: not looked at, and perhaps not there."""
    root = os.environ.get(VARIABLE)
    return (Path(root) if root else home() / ".cache" / "tt-cnn") / name


def home() -> Path:
    """The user's, or for users that have none a private one until the process ends."""
    try:
        return Path.home()
    except RuntimeError:
        say(f"this user has no home folder. {VARIABLE} names a place for the cache")
        return _private()


def folder(name: str = "") -> Path:
    """A folder that is there and only ours: `place(name)`, or a private one until the process ends."""
    wanted = place(name)
    fault = next((f"{path} {why}" for path in dict.fromkeys((place(), wanted)) if (why := _fault(path))), None)
    if fault is None:
        return wanted
    say(f"{fault}. {VARIABLE} names another folder")
    private = _private() / name
    private.mkdir(parents=True, exist_ok=True)
    return private


def _fault(path: Path) -> str | None:
    """Why nothing of ours should be kept in a folder, which is made where it is missing; None where all is well."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.stat()
        parents = [(parent, parent.stat().st_mode) for parent in path.resolve().parents]
    except OSError as error:
        return f"cannot be made or read ({error.strerror or error})"
    if hasattr(os, "geteuid"):
        if found.st_uid != os.geteuid():
            return "belongs to another user, who could put anything there"
        if found.st_mode & _OTHERS_WRITE:
            return f"can be written by others, who could put anything there; look at it, then chmod go-w {path}"
        for parent, mode in parents:
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"can be replaced by others: they may write to {parent}"
    return None if os.access(path, os.W_OK | os.X_OK) else "cannot be written"


@cache
def _private() -> Path:
    path, owner = tempfile.mkdtemp(prefix="tt-cnn-"), os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked process ends before us
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return Path(path)


_said: set[str] = set()


def say(reason: str) -> None:
    if reason not in _said:
        _said.add(reason)
        warnings.warn(f"nothing is kept for the next run: {reason}", CacheWarning, stacklevel=3)


# --- writing --------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A file beside `path` to write to. At the end of the block it is on the disk whole, and takes the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:100]}.")
    os.close(handle)
    try:
        yield Path(name)
        to_disk(name)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
    with contextlib.suppress(OSError):  # some file systems know no such thing for folders
        to_disk(path.parent)


def to_disk(path: str | Path) -> None:
    """Wait until a file or a folder is where a loss of power leaves it."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write(path: Path, content: bytes) -> bool:
    """Write a file whole; False, which is said once, where it cannot be."""
    try:
        with replacing(path) as beside:
            beside.write_bytes(content)
    except OSError as error:
        say(f"{path.parent} takes no files ({error.strerror or error})")
        return False
    return True


def write_sealed(path: Path, content: bytes, purpose: str) -> bool:
    """Write a file that `is_whole` knows again. The seal comes last, where loaders of libraries do not look."""
    return write(path, content + _seal(content, purpose))


def is_whole(path: Path, purpose: str) -> bool:
    """Whether a file is as `write_sealed` wrote it for this purpose, and nobody else can have changed it."""
    try:
        found = path.lstat()
        if not stat.S_ISREG(found.st_mode):
            return False
        if hasattr(os, "geteuid") and (found.st_uid != os.geteuid() or found.st_mode & _OTHERS_WRITE):
            return False
        data = path.read_bytes()
    except OSError:
        return False
    length = len(_seal(b"", ""))
    return data[-length:] == _seal(data[:-length], purpose)


def _seal(content: bytes, purpose: str) -> bytes:
    digest = hashlib.sha256(purpose.encode() + b"\0" + content).hexdigest()
    return _SEAL + digest.encode() + b"\n"


# --- what was measured ----------------------------------------------------------------------------------------------


def read_json(path: Path) -> dict[str, Any]:
    """What a file holds; nothing where it is missing or holds something else."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def update_json(path: Path, entries: Mapping[str, Any]) -> None:
    """Add entries to those of a file, and of other processes that do so at the same time."""
    with locked(path.parent):
        write(path, json.dumps(read_json(path) | dict(entries)).encode())


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time, as far as the file system knows locks."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            handle = os.open(path, os.O_RDONLY)
            held.callback(os.close, handle)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
