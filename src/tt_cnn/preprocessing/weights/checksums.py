# SPDX-License-Identifier: Apache-2.0
"""SHA-256 of files, whole or by its first digits."""

from __future__ import annotations

import hashlib
from pathlib import Path

_BLOCK = 1 << 20


class WrongChecksum(ValueError):
    """A file is not the one that it should be."""


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def verify(path: Path, expected: str) -> str:
    """The file's SHA-256; `expected` holds the first digits of what it must be, or nothing."""
    found = sha256_of(path)
    if not found.startswith(expected.lower()):
        begins = "" if len(expected) == len(found) else " the digits"
        raise WrongChecksum(f"{path.name}: its SHA-256 is {found}, but it must begin with{begins} {expected}")
    return found
