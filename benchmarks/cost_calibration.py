# SPDX-License-Identifier: Apache-2.0
"""The few figures that no document gives, found from published times within physically plausible ranges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import exp, log

from cost_cases import Case

from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.cost.figures import Figures, figures_of
from tt_cnn.virtual.cost.kernel import cost_with
from tt_cnn.virtual.planning.plan import Step

RANGES: dict[str, tuple[float, float, float]] = {
    "stick_cycles": (18.4, 22, 28),
    "page_cycles": (0, 5, 30),
    "barrier_cycles": (60, 120, 250),
    "handshake_cycles": (300, 500, 900),
    "sync_cycles": (20, 30, 60),
    "reconfigure_cycles": (150, 250, 400),
    "accumulate_factor": (1.0, 1.25, 2.0),
    "elementwise_cycles": (70, 100, 130),
    "pool_stick_cycles": (50, 70, 140),
}
"""Lowest, expected and highest value."""
_CASE_WEIGHT = 0.25
_PRIOR_WEIGHT = 0.01
_ROUNDS = 4

Row = tuple[str, Sequence[Step], str, float]
"""Title, steps, card, published nanoseconds."""


def calibrate(rows: Sequence[Row], cases: Sequence[Case]) -> list[str]:
    """Coordinate by coordinate, in finer and finer steps: least squares of logarithms, held near what is expected."""
    times = [case for case in cases if case.unit == "us"]
    values = {name: expected for name, (_, expected, _) in RANGES.items()}
    best = _loss(values, rows, times)
    for turn in range(_ROUNDS):
        for name, (low, _, high) in RANGES.items():
            step = (high - low) / 4 / 2**turn
            for candidate in (values[name] - step, values[name] + step):
                tried = {**values, name: min(high, max(low, candidate))}
                loss = _loss(tried, rows, times)
                if loss < best:
                    values, best = tried, loss
    lines = [f"{name}: {value:.4g}" for name, value in values.items()]
    lines.append(f"root mean square error: {exp(best**0.5) - 1:.1%}")
    lines += [f"{row[0]}: predicted over published time {_ratio(values, row):.2f}" for row in rows]
    return lines


def _figures(values: dict[str, float], card: str) -> Figures:
    return replace(figures_of(card_by_name(card)), **values)


def _ratio(values: dict[str, float], row: Row) -> float:
    _, steps, card, published = row
    figures = _figures(values, card)
    return sum(cost_with(step, card_by_name(card), figures).ns for step in steps) / published


def _loss(values: dict[str, float], rows: Sequence[Row], cases: Sequence[Case]) -> float:
    squares = [(1.0, log(_ratio(values, row)) ** 2) for row in rows]
    figures = _figures(values, "n150")
    for case in cases:
        for step, published in zip(case.steps, case.published, strict=True):
            ns = cost_with(step, card_by_name("n150"), figures).ns
            squares.append((_CASE_WEIGHT, log(ns / 1e3 / published) ** 2))
    error = sum(weight * square for weight, square in squares) / sum(weight for weight, _ in squares)
    prior = sum(((values[n] - middle) / (high - low)) ** 2 for n, (low, middle, high) in RANGES.items())
    return error + _PRIOR_WEIGHT * prior
