# SPDX-License-Identifier: Apache-2.0
"""Packages that only serving needs: asked for when it begins, with a sentence when they are missing."""

from __future__ import annotations

import importlib

PACKAGES = ("starlette", "uvicorn", "prometheus_client")


def check_installed() -> None:
    for package in PACKAGES:
        try:
            importlib.import_module(package)
        except ImportError as error:
            raise ImportError(
                f"tt-cnn serve needs the package {package!r}, which is not installed: pip install 'tt-cnn[serve]'"
            ) from error
