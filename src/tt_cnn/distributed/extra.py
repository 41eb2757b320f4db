# SPDX-License-Identifier: Apache-2.0
"""Packages that only Ray's part needs: asked for when it begins, with a sentence when they are missing."""

from __future__ import annotations

import importlib
from typing import Any


class RayMissing(ImportError):
    """A package of the extra is not installed."""


def require(module: str, purpose: str) -> Any:
    """The module, or an error that says what it is for and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise RayMissing(
            f"{purpose} needs the package {package!r}, which is not installed: pip install 'tt-cnn[ray]'"
        ) from error
