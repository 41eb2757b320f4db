# SPDX-License-Identifier: Apache-2.0
"""How `benchmarks/scale.py` counts: images while all processes work, whatever lies outside of that."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from scale_work import Task, rate_of


def tasks(process: int, start: float, seconds: float, count: int, pause: float = 0.0) -> set[Task]:
    begins = [start + number * (seconds + pause) for number in range(count)]
    return {Task(process, began, began + seconds, 8) for began in begins}


def test_processes_that_start_late_and_end_early_do_not_count_as_slow() -> None:
    together = rate_of(tasks(1, 0.0, 1.0, 10) | tasks(2, 3.5, 1.0, 10))
    assert together.images_per_second == pytest.approx(16) and together.tasks_per_second == pytest.approx(2)
    assert together.seconds_between_tasks == pytest.approx(0)


def test_pauses_between_tasks_are_told() -> None:
    alone = rate_of(tasks(1, 0.0, 1.0, 10, pause=0.25))
    assert alone.images_per_second == pytest.approx(8 / 1.25) and alone.seconds_between_tasks == pytest.approx(0.25)


def test_processes_one_after_the_other_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="did not work at the same time"):
        rate_of(tasks(1, 0.0, 1.0, 3) | tasks(2, 9.0, 1.0, 3))
