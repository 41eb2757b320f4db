# SPDX-License-Identifier: Apache-2.0
"""The path from the baseline to the result as a waterfall: what each kept change brought."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.result import OptimizationResult, said_value
from tt_cnn.reports.html.svg import as_table, label, line, picture, round_steps, short, table, tag, text
from tt_cnn.reports.words import counted

_LEFT, _BAR, _PITCH, _TOP = 230.0, 560.0, 24.0, 28.0
_LABEL = 36
"""Characters before a bar; the middle of a longer one is left out."""
_MOST = 40
"""Bars; with more kept changes those of one step in a row share one."""


@dataclass(frozen=True)
class Change:
    """One bar: kept changes in a row."""

    step: str
    where: str
    """The layer that it changes, or how many."""
    words: str
    before: float
    after: float


def kept_changes(result: OptimizationResult) -> list[Change]:
    """Those that changed the goal's value, in order."""
    changes = [
        Change(attempt.step, _where(attempt), attempt.words, attempt.best_value, attempt.value)
        for attempt in result.kept
        if attempt.value is not None
    ]
    if len(changes) <= _MOST:
        return changes
    joined: list[Change] = []
    for change in changes:
        if joined and joined[-1].step == change.step:
            last = joined.pop()
            count = int(last.words.split()[0]) if last.words.endswith(" changes") else 1
            change = Change(change.step, f"{count + 1} changes", f"{count + 1} changes", last.before, change.after)
        joined.append(change)
    return joined


def _where(attempt: Attempt) -> str:
    return next(iter(attempt.changes), "") if len(attempt.changes) < 2 else counted(len(attempt.changes), "layer")


def waterfall(result: OptimizationResult) -> str:
    """The chart, and its numbers as a table."""
    goal = result.task.goal
    changes = kept_changes(result)
    scale, unit = (1024.0, "KB") if goal == "memory" else (1e3, "µs")
    ticks = round_steps(max(result.value_before, result.value_after) / scale)
    height = _TOP + _PITCH * (len(changes) + 2) + 8
    parts = []

    def x(value: float) -> float:
        return _LEFT + _BAR * value / scale / ticks[-1]

    for tick in ticks:
        parts += [
            line(x(tick * scale), _TOP - 6, x(tick * scale), height),
            label(x(tick * scale), 14, short(tick), "middle"),
        ]
    rows = [("baseline", "", 0.0, result.value_before, "c8")]
    rows += [(_label(change), change.words, change.before, change.after, "c2") for change in changes]
    rows.append(("result", "", 0.0, result.value_after, "c0"))
    for place, row in enumerate(rows):
        parts.append(_bar(place, row, x, f"{unit}", scale))
    said = f"{said_value(goal, result.value_before)} before, {said_value(goal, result.value_after)} now"
    drawn = picture(
        _LEFT + _BAR + 90, height, "".join(parts), f"Path from the baseline to the result, {unit}", id="waterfall"
    )
    numbers = table(
        ["step", "layers", "change", f"before, {unit}", f"after, {unit}", "gain, %"],
        [
            (
                c.step,
                c.where,
                c.words,
                f"{c.before / scale:.1f}",
                f"{c.after / scale:.1f}",
                f"{100 * (1 - c.after / c.before):.2f}",
            )
            for c in changes
        ],
        "Kept changes",
        numeric_from=3,
    )
    box = tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label="Waterfall")
    return tag("p", text(f"{said}; {counted(len(changes), 'change')}.")) + box + as_table("As a table", numbers)


def _bar(
    place: int, row: tuple[str, str, float, float, str], x: Callable[[float], float], unit: str, scale: float
) -> str:
    name, words, before, after, colour = row
    y = _TOP + _PITCH * place
    low, high = sorted((before, after))
    width = max(1.5, x(high) - x(low))
    change = f"{(after - before) / scale:+.1f}" if before else f"{after / scale:.1f}"
    hint = tag("title", text(f"{name}: {words or change} ({change} {unit})"))
    return (
        label(_LEFT - 8, y + 14, _shortened(name), "end", "name")
        + tag("rect", hint, x=x(low), y=y + 3, width=width, height=_PITCH - 7, class_=colour)
        + label(x(high) + 6, y + 14, change)
    )


def _label(change: Change) -> str:
    return f"{change.step}: {change.where}" if change.where else change.step


def _shortened(words: str) -> str:
    return words if len(words) <= _LABEL else words[: _LABEL // 2 - 1] + "…" + words[-_LABEL // 2 :]
