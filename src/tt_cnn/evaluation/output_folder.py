# SPDX-License-Identifier: Apache-2.0
"""Where results go: never over others."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path


def checked_folder(wanted: Path) -> Path:
    """The folder, made and found to be writable and empty: a mistake is reported before anything is measured."""
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        taken = any(wanted.iterdir())
        with tempfile.TemporaryFile(dir=wanted):
            pass
    except OSError as error:
        raise ValueError(
            f"--output is {wanted}, and nothing can be written there ({error.strerror}); "
            "name a folder that you may write to"
        ) from error
    if taken:
        raise ValueError(f"{wanted} is there already and not empty; name another folder for the results")
    return wanted


def result_folder(wanted: Path, *, force: bool = False) -> Path:
    """The folder, made new; where it is taken, the next free `NAME-2`, `NAME-3`, ..., or with `force` emptied.

    Only images and videos are taken away by `force`: a folder with anything else in it is refused.
    """
    if wanted.exists() and not wanted.is_dir():
        raise FileExistsError(f"{wanted} is a file; name a folder for the results")
    if not wanted.exists() or not any(wanted.iterdir()):
        wanted.mkdir(parents=True, exist_ok=True)
        return wanted
    if force:
        _empty(wanted)
        return wanted
    numbered = (wanted.with_name(f"{wanted.name}-{number}") for number in itertools.count(2))
    free = next(path for path in numbered if not path.exists())
    free.mkdir(parents=True)
    return free


OURS = {".png", ".mp4"}


def _empty(folder: Path) -> None:
    others = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in OURS]
    if others:
        raise FileExistsError(f"{folder} holds {others[0].name}, which tt-cnn did not write; name another folder")
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
