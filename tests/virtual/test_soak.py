# SPDX-License-Identifier: Apache-2.0
"""A short soak; `benchmarks/soak.py` is the long one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[2] / "benchmarks" / "soak.py"


def test_nothing_grows() -> None:
    """In a process of its own: in one that ran other tests the memory of those comes and goes."""
    done = subprocess.run([sys.executable, str(SOAK), "2000", "6000"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "nothing grew" in done.stdout, done.stdout + done.stderr
