# SPDX-License-Identifier: Apache-2.0
"""Keywords that mean the same: names of other signatures of this version, and spellings of older versions.

The latter work with a DeprecationWarning. One table for all ops and for Conv2dConfig: the name, and for each old word
the one that took its place, or None where TT-NN dropped it because it no longer changes anything. (The dtypes of a
convolution's input and output are those of its tensor and of `conv2d(dtype=)`.)
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


_SECOND_NUMBER = {"input_b": "input_tensor_b"}
OVERLOADS: dict[str, dict[str, str]] = {
    "maximum": _SECOND_NUMBER,
    "minimum": _SECOND_NUMBER,
    "rsub": _SECOND_NUMBER,
    "bitwise_and": _SECOND_NUMBER,
    "bitwise_or": _SECOND_NUMBER,
    "bitwise_xor": _SECOND_NUMBER,
    "bitwise_left_shift": _SECOND_NUMBER,
    "bitwise_right_shift": _SECOND_NUMBER,
    "div": {"value": "input_tensor_b"},
    "divide": {"value": "input_tensor_b"},
    "floor_div": {"value": "input_tensor_b"},
    "fmod": {"scalar": "input_tensor_b"},
}
"""Where TT-NN has a signature of its own for numbers, in which a parameter has another name."""


def by_one_name(op: str, keywords: dict[str, Any]) -> dict[str, Any]:
    """The keywords of a call by the names of the signature for tensors."""
    others = OVERLOADS.get(op)
    if not others or others.keys().isdisjoint(keywords):
        return keywords
    return {others.get(name, name): value for name, value in keywords.items()}


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
