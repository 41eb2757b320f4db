# SPDX-License-Identifier: Apache-2.0
"""The folder that a bring-up writes, and what keeps a user's edits in it safe.

`.bringup.json` has the digest of every file as it was written. A file that is no longer as it was written is the
user's, and so is one that was never written: neither is replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

RECORD = ".bringup.json"
REPORTS = ("docs/", "profile/")
"""Folders of what is only read."""


class Edited(ValueError):
    """Files that would be written over have been edited."""

    def __init__(self, folder: Path, files: list[str]) -> None:
        self.files = files
        shown = "\n".join(f"  {file}" for file in files)
        super().__init__(
            f"{folder} has files that were edited, or that bringup did not write; nothing was changed:\n{shown}\n"
            "  --update changes tt/config.py alone, --overwrite replaces them, -o writes another folder."
        )


class GeneratedFolder:
    def __init__(self, path: Path) -> None:
        if not path.name.isidentifier():
            raise ValueError(
                f"-o is {path}; its last part must be a Python name, since the folder is a package: {path.name!r}"
            )
        if path.exists() and not path.is_dir():
            raise ValueError(f"-o is {path}, which is a file")
        self.path = path

    @property
    def record(self) -> dict[str, str]:
        """Digests of the files as they were written; empty where nothing is known."""
        file = self.path / RECORD
        if not file.is_file():
            return {}
        try:
            data = json.loads(file.read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError):
            return {}
        files = data.get("files", {}) if isinstance(data, dict) else {}
        return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}

    def edited(self, files: Mapping[str, bytes]) -> list[str]:
        """Of the files that are to be written those that are not as bringup wrote them, and would change."""
        known = self.record
        found = []
        for name, new in files.items():
            file = self.path / name
            if file.exists() and file.read_bytes() != new and known.get(name) != _digest(file.read_bytes()):
                found.append(name)
        return found

    def check_untouched(self, names: list[str] | None = None, overwrite: bool = False) -> None:
        """Before the work begins: whether what will be written over is as bringup wrote it.

        Without a record of what was written, anything in the folder is the user's.
        """
        if overwrite or not self.path.is_dir():
            return
        known = self.record
        present = {
            str(file.relative_to(self.path)): file
            for file in self.path.rglob("*")
            if file.is_file() and "__pycache__" not in file.parts and file.name != RECORD
        }
        if names is None:
            names = list(known) or list(present)
        edited = [name for name in names if name in present and known.get(name) != _digest(present[name].read_bytes())]
        if edited:
            raise Edited(self.path, sorted(edited))

    def check(self, files: Mapping[str, bytes], overwrite: bool = False) -> None:
        edited = [] if overwrite else self.edited(files)
        if edited:
            raise Edited(self.path, edited)

    def write(self, files: Mapping[str, bytes], overwrite: bool = False) -> None:
        """All files, or none where one was edited."""
        self.check(files, overwrite)
        known = self.record
        self._drop_reports(known, files)
        for name, content in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            _replace(file, content)
            known[name] = _digest(content)
        _replace(self.path / RECORD, json.dumps({"files": known}, indent=1).encode())

    def _drop_reports(self, known: dict[str, str], files: Mapping[str, bytes]) -> None:
        """Reports of the last run that this one does not write, as long as nobody has changed them."""
        if not any(name.startswith(REPORTS) for name in files):
            return
        for name in [each for each in known if each.startswith(REPORTS) and each not in files]:
            file = self.path / name
            if file.is_file() and _digest(file.read_bytes()) == known.pop(name):
                file.unlink()


def _replace(file: Path, content: bytes) -> None:
    """As a whole: an interrupt leaves the old file or the new one."""
    new = file.with_name(file.name + ".new")
    new.write_bytes(content)
    new.replace(file)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
