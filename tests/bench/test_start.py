# SPDX-License-Identifier: Apache-2.0
"""How `benchmarks/start.py` counts: from the start of a process until a file is there, and what misses a goal."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import start

WRITES = "import pathlib, sys, time; time.sleep(0.3); pathlib.Path(sys.argv[1]).write_text('x'); time.sleep(60)"


def test_what_a_process_does_after_the_file_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    file, began = tmp_path / "out" / "image", time.perf_counter()
    seconds = start.seconds_until([sys.executable, "-c", WRITES, str(file)], file, dict(os.environ))
    assert 0.3 < seconds < 30 and time.perf_counter() - began < 30


def test_a_process_that_ends_without_the_file_is_told(tmp_path: Path) -> None:
    file = tmp_path / "out" / "image"
    with pytest.raises(RuntimeError, match=r"ended without image:\n.*no image today"):
        start.seconds_until([sys.executable, "-c", "raise SystemExit('no image today')"], file, dict(os.environ))


def test_imports_are_counted_after_torch() -> None:
    assert 0.2 < start.import_seconds("time.sleep(0.2)") < 1.0


def test_medians_beyond_their_goals_are_missed() -> None:
    found = {
        "import tt_cnn, after torch": [0.1, 0.1, 0.9],
        "first image, tt-cnn demo": [4.0, 6.0, 7.0],
        "first image, OpenVINO": [9.0, 9.0, 9.0],
    }
    assert start.misses(found) == ["first image, tt-cnn demo: 6.00 s; at most 5 s are wanted"]
    assert "| first image, OpenVINO | 9.00 | 9.00 | 9.00 |  |" in start.lines(found)
