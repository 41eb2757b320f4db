"""Spellings of older TT-NN versions that programs still use. They work, with a DeprecationWarning.

One table for all ops and for Conv2dConfig: the name, and for each old keyword the one that took its place, or None
where TT-NN dropped it because it no longer changes anything. (The dtypes of a convolution's input and output are those
of its tensor and of `conv2d(dtype=)`.)
"""

from __future__ import annotations

import warnings
from typing import Any

VERSION = "0.81.1"

KEYWORDS: dict[str, dict[str, str | None]] = {
    "leaky_relu": {"slope": "negative_slope"},
    "conv2d": {"config": "conv_config"},
    "Conv2dConfig": {"activation_dtype": None, "output_dtype": None},
    "add": {"use_legacy": None},
    "subtract": {"use_legacy": None},
    "multiply": {"use_legacy": None},
    "divide": {"use_legacy": None, "accurate_mode": None},
    "div": {"use_legacy": None, "accurate_mode": None},
}


def current_spelling(op: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a call as this version spells them; those given in both spellings are left to fail."""
    old = KEYWORDS.get(op)
    if not old or not keywords or old.keys().isdisjoint(keywords):
        return keywords
    renamed = {}
    for name, value in keywords.items():
        new = old.get(name, name)
        if name in old and new not in keywords:
            hint = f"use {new}" if new else "it has no effect any more"
            warnings.warn(f"ttnn.{op}({name}=) is not in TT-NN {VERSION}: {hint}", DeprecationWarning, stacklevel=4)
            name = new or ""
        if name:
            renamed[name] = value
    return renamed
