# SPDX-License-Identifier: Apache-2.0
"""Keeping Python's garbage collector out of short work that makes many objects which stay."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Looking through planned steps for garbage, again and again, doubles the time of planning."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
