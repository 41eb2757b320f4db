# SPDX-License-Identifier: Apache-2.0
"""Exponents of `benchmarks/growth.py`, what `--check` finds in them, its arguments, and one small run."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import growth
from growth_fit import OURS, TOLERANCE, Point, Series, exponent


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.7])
def test_a_power_law_has_its_own_exponent(power: float) -> None:
    work = [1e9, 2e9, 5e9, 4e10]
    assert exponent(work, [3e-12 * x**power for x in work]) == pytest.approx(power)


def test_the_line_is_the_one_of_least_squares() -> None:
    # logarithms 0, 1, 2 with 0, 2, 1: the slope is 1/2, though the ends alone say 1/2 and neighbours say 2 and -1
    assert exponent([1.0, math.e, math.e**2], [1.0, math.e**2, math.e]) == pytest.approx(0.5)
    # and a point beside the middle of a line of slope 1 draws at it: 0, 1, 2, 3 with 0, 1, 2, 5
    values = [1.0, math.e, math.e**2, math.e**5]
    assert exponent([math.e**i for i in range(4)], values) == pytest.approx(1.6)


@pytest.mark.parametrize(
    ("work", "values", "said"),
    [
        ([1.0], [1.0], "two different sizes"),
        ([2.0, 2.0], [1.0, 3.0], "two different sizes"),
        ([1.0, 2.0], [1.0], "2 sizes with 1 values"),
        ([1.0, 2.0], [1.0, 0.0], "above 0"),
    ],
)
def test_what_has_no_exponent_is_refused(work: list[float], values: list[float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        exponent(work, values)


def series(ours: float, theirs: float, *, memory: float = 1.0, factor: float = 2.0) -> Series:
    """Both by power laws; the peer takes `factor` times as long for the first."""
    one = Point(OURS, "1", 1.0, 1.0, 1e6, 1.0, 1e6)
    points = []
    for x in (1.0, 2.0, 4.0, 8.0):
        points.append(replace(one, label=f"{x:g}", work=x, seconds=x**ours, memory=1e6 * x**memory))
        points.append(replace(points[-1], subject="peer", seconds=factor * x**theirs, memory=1e6 * x))
    return Series("batch", tuple(points))


def test_growth_like_the_fastest_peers_is_good() -> None:
    assert series(1.0, 1.0).misses == []
    assert series(1.0 + TOLERANCE / 2, 1.0).misses == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (series(1.0 + 2 * TOLERANCE, 1.0), "seconds grow as the work to the 1.20, peer's to the 1.00"),
        (series(1.0, 1.0, memory=1.3), "memory grow as the work to the 1.30, peer's to the 1.00"),
        (series(1.5, 1.5), "from 4 to 8 the work grows 2.00 times, time 2.83 times"),
    ],
)
def test_what_grows_faster_is_told(found: Series, said: str) -> None:
    assert any(said in miss for miss in found.misses)


def test_beside_several_the_fastest_at_the_largest_size_counts() -> None:
    slow, quick = series(1.0, 1.0, factor=3.0), series(1.0, 0.8, factor=2.0)
    other = tuple(replace(one, subject="quick") for one in quick.of("peer"))
    assert Series("batch", (*slow.points, *other)).fastest_peer == "quick"


def test_tables_have_every_point_and_every_subject() -> None:
    lines = series(1.0, 0.9).lines()
    assert sum(line.startswith(("| 1 |", "| 2 |", "| 4 |", "| 8 |")) for line in lines) == 8
    assert any(line.startswith(f"| {OURS} | 1.00 | 1.00 |") for line in lines)
    assert any(line.startswith("| peer | 0.90 |") for line in lines)


def test_arguments_say_what_is_measured() -> None:
    chosen = growth.arguments([])
    assert list(chosen.sizes) == ["batch", "resolution", "depth"] and chosen.sizes["batch"] == ("1", "2", "4", "8")
    chosen = growth.arguments(["resolution", "--sizes", "64x64,128x128", "--peers", "openvino", "--check"])
    assert chosen.sizes == {"resolution": ("64x64", "128x128")} and chosen.peers == ["openvino"] and chosen.check


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["width"], "no kind 'width'"),
        (["--peers", "tensorrt"], "no peer 'tensorrt'"),
        (["--sizes", "1,2"], "--sizes are of one kind"),
        (["batch", "--sizes", "4"], "two sizes and more"),
    ],
)
def test_wrong_arguments_are_told(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        growth.arguments(given)
    assert said in capsys.readouterr().err


def test_a_small_run_measures_ours_and_a_peer() -> None:
    """Another bottleneck in each stage is more work; outputs are the torch module's; memory was counted for both."""
    found = growth.measured("depth", ("1", "2"), ["torch"], rounds=1, threads=1)
    assert found.subjects == [OURS, "torch eager"]
    less, more = found.of(OURS)
    assert more.work > 1.5 * less.work and min(less.pcc, more.pcc) > 0.999
    assert all(one.seconds > 0 and one.memory > 0 and one.compile_seconds > 0 for one in found.points)
    assert less.arena > 0 or "kernels" not in less.engines
