# SPDX-License-Identifier: Apache-2.0
"""How the architectures do on cards, as `benchmarks/zoo.py --write` stored it in `results.json`."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

FILE = "results.json"


@cache
def stored_results() -> dict[str, dict[str, dict[str, Any]]]:
    """Rows by architecture and card; empty where none were stored."""
    file = resources.files("tt_cnn.zoo").joinpath(FILE)
    if not file.is_file():
        return {}
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(file.read_text(encoding="utf-8"))
    return found
