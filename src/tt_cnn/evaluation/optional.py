# SPDX-License-Identifier: Apache-2.0
"""Packages that only evaluation and demos need: asked for when they are used, with a sentence when they are missing."""

from __future__ import annotations

import importlib
from typing import Any

EXTRA = "pip install 'tt-cnn[eval]'"
_OTHERS = {"av": "pip install 'tt-cnn[video]' (its wheels bundle FFmpeg with codecs under the GPL)"}
"""Packages that no extra brings along unasked."""


def require(module: str, purpose: str) -> Any:
    """The module, or an ImportError that says what it is for and how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        how = _OTHERS.get(package, EXTRA)
        raise ImportError(f"{purpose} needs the package of {package!r}, which is not installed: {how}") from error
