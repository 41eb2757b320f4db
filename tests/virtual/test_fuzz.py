# SPDX-License-Identifier: Apache-2.0
"""Wild calls of every function of TT-NN: each works or raises a typed error at once; nothing hangs, nothing leaks.

`benchmarks/wild_calls.py` makes and counts them; it runs in a process of its own, since a call could end it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WILD_CALLS = Path(__file__).parents[2] / "benchmarks" / "wild_calls.py"


def check(calls: int, seed: int) -> None:
    command = [sys.executable, str(WILD_CALLS), "--calls", str(calls), "--seed", str(seed), "--show", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_wild_calls() -> None:
    check(3000, seed=1)


@pytest.mark.long
def test_many_wild_calls() -> None:
    check(20_000, seed=2)
