# SPDX-License-Identifier: Apache-2.0
"""All ops. Importing this package registers them."""

from __future__ import annotations

import importlib
import pkgutil

from tt_cnn.virtual.ops.operation import OPERATIONS, Operation, op


def load_all() -> None:
    """Import every module of this package, so that what stands in a file is there without a list of files."""
    for module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
        importlib.import_module(module.name)


__all__ = ["OPERATIONS", "Operation", "load_all", "op"]
