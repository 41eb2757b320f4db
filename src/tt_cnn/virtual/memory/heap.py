# SPDX-License-Identifier: Apache-2.0
"""Memory of freed tensors that the C library keeps, in a heap for every thread: given back when a card is closed.

Without it a process that opens card after card, as tests do, holds gigabytes that are not used.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """glibc's `malloc_trim`; None where the C library has none."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None


def give_back() -> None:
    trim = _trim()
    if trim is not None:
        trim(ctypes.c_size_t(0))
