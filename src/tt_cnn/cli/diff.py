# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn diff`: what a change did to a profile."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from tt_cnn.cli.console import output, say
from tt_cnn.cli.tables import Column, Listing, texts

if TYPE_CHECKING:
    from tt_cnn.reports.difference import Difference, StepChange

Before = Annotated[Path, typer.Argument(metavar="A", help="A profile's folder, or its profile.json.")]
After = Annotated[Path, typer.Argument(metavar="B", help="A second profile, of the same model or of another.")]
Top = Annotated[int, typer.Option("--top", min=1, help="The most steps to show of each kind.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print all changes as JSON.")]


def diff(before: Before, after: After, top: Top = 15, as_json: AsJson = False) -> None:
    """Compare two profiles: what got faster, slower, moved, changed precision.

    Steps are matched by layer and op, in order.

    Example: tt-cnn diff out/profile/yolov4-n150 out/profile/yolov4-n150-2
    """
    from tt_cnn.reports.difference import compare_profiles
    from tt_cnn.reports.profile_json import load_profile

    difference = compare_profiles(load_profile(before), load_profile(after))
    if as_json:
        print(json.dumps(_as_data(difference)))
        return
    _show(difference, top)


def _show(difference: Difference, top: int) -> None:
    a, b = difference.before, difference.after
    table = Listing((*texts("predicted", "A", "B", folds=True), Column("change", right=True)))
    table.add(
        "model", *(f"{p.model.name} {p.model.resolution[0]}x{p.model.resolution[1]} on {p.card}" for p in (a, b)), ""
    )
    numbers: list[tuple[str, float, float, str]] = [
        ("device time, µs", a.device_ns / 1e3, b.device_ns / 1e3, ".1f"),
        ("device fps", a.device_fps, b.device_fps, ".0f"),
        ("steps", len(a.rows), len(b.rows), ".0f"),
        ("L1 peak, KB", a.l1_peak / 1024, b.l1_peak / 1024, ".0f"),
    ]
    fps = {result.executor: result.fps for result in b.executors}
    for result in a.executors:
        if result.executor in fps:
            numbers.append((f"fps with {result.executor}", result.fps, fps[result.executor], ".0f"))
    measured = {one.layer: one.pcc for one in b.accuracy}
    for accuracy in a.accuracy:
        if accuracy.layer in measured:
            numbers.append((f"PCC of {accuracy.layer}", accuracy.pcc, measured[accuracy.layer], ".5f"))
    for name, one, other, form in numbers:
        change = f"{other - one:+.5f}" if form == ".5f" else f"{100 * (other - one) / one:+.1f} %" if one else ""
        table.add(name, f"{one:{form}}", f"{other:{form}}", change)
    table.show()
    if difference.is_same:
        say("no step changed")
        return
    timed: Callable[[StepChange], str] = _times
    for title, steps, said in (
        ("faster", difference.faster, timed),
        ("slower", difference.slower, timed),
        ("moved", difference.moved, lambda step: "; ".join(step.moved)),
        ("changed precision", difference.changed_precision, lambda step: "; ".join(step.precision)),
        ("only in B", difference.added, timed),
        ("only in A", difference.removed, timed),
    ):
        _section(title, steps, said, top)


def _section(title: str, steps: list[StepChange], said: Callable[[StepChange], str], top: int) -> None:
    from tt_cnn.reports.words import counted

    if not steps:
        return
    total = f", {sum(step.ns for step in steps) / 1e3:+.1f} µs in all" if said is _times else ""
    say(f"\n{title}: {counted(len(steps), 'step')}{total}", "bold")
    for step in steps[:top]:
        output.print(f"  [bold]{escape(step.name)}[/] {escape(step.op)}  {escape(said(step))}", highlight=False)
    if len(steps) > top:
        say(f"  and {len(steps) - top} more (--top)")


def _times(step: StepChange) -> str:
    times = [f"{row.cost.ns / 1e3:.1f}" if row is not None else "-" for row in (step.before, step.after)]
    return f"{' -> '.join(times)} µs ({step.ns / 1e3:+.1f})"


def _as_data(difference: Difference) -> dict[str, Any]:
    a, b = difference.before, difference.after
    groups = {
        "faster": difference.faster,
        "slower": difference.slower,
        "moved": difference.moved,
        "changed_precision": difference.changed_precision,
        "added": difference.added,
        "removed": difference.removed,
    }
    return {
        "device_ns": [a.device_ns, b.device_ns],
        "fps": [a.fps, b.fps],
        "pcc": [{one.layer: one.pcc for one in profile.accuracy} for profile in (a, b)],
        **{name: [_step_data(step) for step in steps] for name, steps in groups.items()},
    }


def _step_data(step: StepChange) -> dict[str, Any]:
    rows = {"before": step.before, "after": step.after}
    times = {f"{name}_ns": row.cost.ns for name, row in rows.items() if row is not None}
    return {"name": step.name, "op": step.op, **times, "moved": step.moved, "precision": step.precision}
