"""Interrupts, in a process of their own: what they hit must not be another test, or pytest itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAMS = Path(__file__).with_name("interrupted_programs.py")


def test_a_card_can_be_used_after_interrupts_at_any_point() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", str(PROGRAMS)], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
