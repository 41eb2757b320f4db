# SPDX-License-Identifier: Apache-2.0
"""Which TT-NN is in use: the real one where it is installed and sees a card, else the virtual card.

`TT_CNN_RUNTIME` decides otherwise: `virtual`, `ttnn` (the real one, or an error), `auto` (the default).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from functools import cache
from types import ModuleType

VARIABLE = "TT_CNN_RUNTIME"
CHOICES = ("auto", "ttnn", "virtual")
VIRTUAL = "tt_cnn.virtual.ttnn"


class RuntimeUnavailable(ImportError):
    """The TT-NN that was asked for cannot be had."""


def choice() -> str:
    """What the environment asks for."""
    asked = os.environ.get(VARIABLE, "").strip().lower() or "auto"
    if asked not in CHOICES:
        raise ValueError(f"{VARIABLE} is {asked!r}; it must be one of {', '.join(CHOICES)}")
    return asked


def real_ttnn() -> ModuleType | None:
    """The real library, where it can be imported; `import ttnn` made to give the virtual card does not count."""
    try:
        if importlib.util.find_spec("ttnn") is None:
            return None
        module = importlib.import_module("ttnn")
    except (ImportError, ValueError, OSError):
        return None
    return None if module.__name__ == VIRTUAL else module


def sees_a_card(module: ModuleType) -> bool:
    """Whether the real library finds a card. It raises where the driver is missing: then there is none."""
    try:
        return int(module.GetNumAvailableDevices()) > 0
    except Exception:
        return False


@cache
def select() -> ModuleType:
    """The TT-NN in use. It is chosen once for each process."""
    asked = choice()
    if asked == "virtual":
        return importlib.import_module(VIRTUAL)
    module = real_ttnn()
    if asked == "ttnn":
        if module is None:
            raise RuntimeUnavailable(
                f"{VARIABLE}=ttnn asks for the real TT-NN, but no module ttnn can be imported; install it, or use "
                f"{VARIABLE}=virtual"
            )
        return module
    if module is not None and sees_a_card(module):
        return module
    return importlib.import_module(VIRTUAL)


def plan_on_the_virtual_card() -> None:
    """For what plans and predicts: take the virtual card, also on a machine with a card."""
    asked = choice()
    if asked == "ttnn":
        raise RuntimeUnavailable(
            f"this plans on the virtual card, and {VARIABLE}=ttnn asks for the real TT-NN; leave it out, or use "
            f"{VARIABLE}=virtual"
        )
    if asked == "auto" and importlib.util.find_spec("ttnn") is not None:
        os.environ[VARIABLE] = "virtual"  # for the processes that are started, too


def is_virtual() -> bool:
    return select().__name__ == VIRTUAL


def describe() -> str:
    """One line on what is in use and why."""
    asked = choice()
    if is_virtual():
        if asked == "virtual":
            why = f"{VARIABLE}=virtual"
        else:
            why = "no module ttnn" if real_ttnn() is None else "the real ttnn sees no card"
        return f"the virtual card ({why})"
    return f"the real ttnn {getattr(select(), '__version__', '')}".rstrip()
