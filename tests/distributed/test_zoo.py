# SPDX-License-Identifier: Apache-2.0
"""`benchmarks/zoo.py --ray`: the rows of the zoo are those without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from bringup_rows import Row
from zoo import made_by_actors, made_here
from zoo_rows import Tried

ASKED = [("squeezenet1_1", ["n150"]), ("shufflenet_v2_x0_5", ["n150"])]


@pytest.mark.long
def test_rows_are_the_same_on_actors(address: str) -> None:
    tried = Tried((), 0.0)
    here = {(name, row["card"]): row for name, row in made_here(ASKED, tried)}
    there = {(name, row["card"]): row for name, row in made_by_actors(ASKED, tried, address)}
    assert here.keys() == there.keys() == {(name, "n150") for name, _ in ASKED}
    for key, row in here.items():
        assert without_times(there[key]) == without_times(row)


def without_times(row: Row) -> Row:
    return {key: value for key, value in row.items() if key != "seconds"}
