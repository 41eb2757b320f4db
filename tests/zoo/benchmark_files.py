# SPDX-License-Identifier: Apache-2.0
"""Modules of `benchmarks/`, which is no package."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


def benchmark_module(name: str) -> ModuleType:
    """A module of its own, with those that it imports from beside it: nobody else has them."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(FOLDER))
        found = importlib.import_module(name)
    for known in [known for known, module in sys.modules.items() if _is_ours(module)]:
        del sys.modules[known]
    return found


def _is_ours(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).parent == FOLDER
