# SPDX-License-Identifier: Apache-2.0
"""Freed memory is taken again without asking the system for pages."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

FAULTS = """
import resource, sys, torch
from tt_cnn.cli.kept_memory import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()
def used():
    for _ in range(5):
        torch.empty(20_000_000).fill_(1.0)
used()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
used()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> int:
    done = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have other ways")
def test_freed_memory_is_used_again() -> None:
    given_back, kept = faults("given back"), faults("kept")
    assert kept < 100 and kept * 10 < given_back, (kept, given_back)
