# SPDX-License-Identifier: Apache-2.0
"""Memory that goes from one image of a network to the next, not back to the system in between."""

from __future__ import annotations

import ctypes
import platform

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's mallopt."""
_SETTINGS = {_MMAP_THRESHOLD: 1 << 30, _TRIM_THRESHOLD: (1 << 31) - 1, _TOP_PAD: 1 << 26}


def keep_freed_memory() -> None:
    """For a process that runs a network and ends: it keeps what it frees, 2 GiB at most.

    glibc takes large blocks from the system and gives them back at once, and each time the system fills their pages
    with zeros again.
    """
    if platform.libc_ver()[0] != "glibc":
        return
    mallopt = ctypes.CDLL(None).mallopt
    for parameter, value in _SETTINGS.items():
        mallopt(parameter, value)
