# SPDX-License-Identifier: Apache-2.0
"""OpenVINO and ONNX Runtime, imported so that they report to nobody.

Both send events to their makers by default and keep an identifier of the user (`~/intel`, `~/.cache/Microsoft`).
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

TELEMETRY = "openvino_telemetry"


def import_onnxruntime() -> Any:
    """With its documented opt-out, which it reads when it starts; whoever has set the variable has decided."""
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    return importlib.import_module("onnxruntime")


@cache
def openvino_core() -> Any:
    """One for the process, for good: a core sets an alternate signal stack and puts the former one back when it goes.
    Where several go in another order than they came, that is the stack of one that is gone, and the next signal, Ctrl-C
    say, ends the process.

    OpenVINO knows no opt-out but a file in the home folder; without its telemetry package it takes a stub.
    """
    with _hidden(TELEMETRY):
        return importlib.import_module("openvino").Core()


@contextmanager
def _hidden(package: str) -> Iterator[None]:
    """Imports of a package fail meanwhile, as if it were not installed."""
    known = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == package}
    for name in known:
        del sys.modules[name]
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]
        sys.modules.update(known)
