# SPDX-License-Identifier: Apache-2.0
"""`report.html` of a search: the path, the attempts, the checklist and the changes, before the result's own profile."""

from __future__ import annotations

from collections import Counter

from torch import nn

from tt_cnn.optimizer.checklist import Item, checklist
from tt_cnn.optimizer.journal import Attempt
from tt_cnn.optimizer.journal_file import versions
from tt_cnn.optimizer.result import ENDS, OptimizationResult, Standing, said_value
from tt_cnn.optimizer.result_folder import config_diff
from tt_cnn.optimizer.waterfall import waterfall
from tt_cnn.reports.html.page import Section, facts_html, page_html, report_html
from tt_cnn.reports.html.svg import as_table, table, tag, text
from tt_cnn.reports.profiling import profile_model
from tt_cnn.reports.records import Profile
from tt_cnn.reports.words import counted

_MOST_ROWS = 1000
"""Attempts in the table; journal.json has all."""


def optimization_page(result: OptimizationResult, reference: nn.Module | None = None) -> str:
    """The whole page. A measured search has no profile: nothing was planned."""
    before, after = (
        (None, None)
        if result.task.measured
        else (profiled(result, s, reference) for s in (result.before, result.after))
    )
    sections = optimization_sections(result, before, after)
    height, width = result.task.resolution
    title = f"{result.task.model} {height}x{width} on {result.task.card}, optimised for {result.task.goal}"
    if after is not None:
        return report_html(after, first=sections, title=title)
    facts = facts_html(
        answer(result), [(f"{result.after.prediction.device_ns / 1e6:.3f} ms", "on the device, measured")]
    )
    return page_html(title, facts, sections, f"Measured with tt-cnn {versions()['tt-cnn']}.")


def profiled(result: OptimizationResult, standing: Standing, reference: nn.Module | None = None) -> Profile:
    task = result.task
    return profile_model(
        task.model,
        card=task.card,
        executor=standing.deployment.executor,
        resolution=task.resolution,
        batch_size=standing.deployment.batch_size,
        precision=task.precision,
        config=standing.assignment,
        reference=reference,
    )


def optimization_sections(result: OptimizationResult, before: Profile | None, after: Profile | None) -> list[Section]:
    path = tag("p", text(answer(result) + _verification(result))) + waterfall(result) + _other_kernels(result, after)
    return [
        ("path", "Path from the baseline to the result", path),
        ("checklist", "Checklist", _checklist(checklist(result, before, after))),
        ("attempts", "Attempts", _attempts(result)),
        (
            "changes",
            "Changes",
            tag("div", tag("pre", text(config_diff(result) or "no setting changed")), class_="scroll"),
        ),
    ]


def answer(result: OptimizationResult) -> str:
    """What came out, in one line."""
    task, before, after = result.task, result.before, result.after
    height, width = task.resolution
    how = "measured" if task.measured else "predicted"
    batch = f"batch {after.deployment.batch_size}"
    if before.deployment.batch_size != after.deployment.batch_size:
        batch = f"batch {before.deployment.batch_size} to {after.deployment.batch_size}"
    better = {"latency": "as fast", "throughput": "as many images", "memory": "less L1"}[task.goal]
    gained = f"{result.times_better:.2f} times {better}" if result.times_better > 1.0005 else "nothing better was found"
    pcc = f"PCC at least {min(result.pcc.values()):.4f}" if result.pcc else "PCC not measured"
    return (
        f"{task.model} {height}x{width}, {batch}, on {task.card}, {how}: "
        f"{said_value(task.goal, result.value_before)} to {said_value(task.goal, result.value_after)}, {gained}; "
        f"{before.fps:.0f} to {after.fps:.0f} fps end to end with {after.deployment.executor}; {pcc}; {_metric(result)}"
        f"{'verified' if result.verification.holds else 'NOT as the search saw it'}"
    )


def _verification(result: OptimizationResult) -> str:
    """What `answer` says of it in a word."""
    return f": {result.verification.said}."


def _other_kernels(result: OptimizationResult, profile: Profile | None) -> str:
    """Why the profile's device time is another than the search's: an executor may move each input first."""
    model = result.after.prediction.device_ns
    if profile is None or abs(profile.device_ns - model) < 0.001 * model:
        return ""
    moves = (profile.device_ns - model) / 1e3
    said = (
        f"Times of the search are the kernels of the model. The {profile.device_ns / 1e6:.3f} ms above have also the "
        f"{moves:.1f} µs in which {result.after.deployment.executor} moves an input to where the model wants it."
    )
    return tag("p", text(said))


def _metric(result: OptimizationResult) -> str:
    found = result.metric
    if found is None:
        return ""
    return f"{found.name} {found.before:.2f} to {found.after:.2f} on {found.pictures} {found.data}; "


def _checklist(items: list[Item]) -> str:
    parts = []
    for name in dict.fromkeys(item.list for item in items):
        own = [item for item in items if item.list == name]
        rows = [("☑" if item.ticked else "☐", item.title, item.evidence) for item in own]
        caption = f"{name}: {sum(item.ticked for item in own)} of {len(own)}"
        parts.append(table(["done", "item", "what was found"], rows, caption, numeric_from=3))
    return "".join(parts)


def _attempts(result: OptimizationResult) -> str:
    attempts = result.journal.attempts
    outcomes = Counter(attempt.outcome for attempt in attempts)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    said = (
        f"{counted(len(attempts), 'attempt')} ({counts or 'none'}) in {result.seconds:.1f} s, "
        f"{result.planned_per_second:.0f} candidates per second; {ENDS[result.end]}. "
        f"{_sentence(result.verification.said)}"
    )
    faults = "".join(
        tag(
            "p",
            text(f"The step {step.name} failed, which is a fault of the step: {step.error.strip().splitlines()[-1]}"),
        )
        for step in result.faults
    )
    steps = table(
        ["step", "round", "attempts", "kept", "seconds", "ended"],
        [
            (s.name, s.round, s.attempts, s.kept, f"{s.seconds:.1f}", "failed" if s.error else _cut(s.cut_off))
            for s in result.steps
        ],
        "Steps in their order",
    )
    kept = {attempt.number for attempt in result.kept}
    shown = [attempt for attempt in attempts if attempt.number in kept or attempt.number <= _MOST_ROWS]
    left_out = f", {len(attempts) - len(shown)} more in journal.json" if len(shown) < len(attempts) else ""
    rows = table(
        ["#", "step", "change", "outcome", "why", "device µs", "PCC", "s"],
        [_row(attempt) for attempt in shown],
        f"Attempts in their order{left_out}",
        numeric_from=5,
    )
    return tag("p", text(said)) + faults + steps + as_table(f"All attempts ({len(shown)} rows)", rows)


def _row(attempt: Attempt) -> tuple[object, ...]:
    pcc = f"{min(attempt.pcc.values()):.5f}" if attempt.pcc else ""
    ns = "" if attempt.device_ns is None else f"{attempt.device_ns / 1e3:.1f}"
    cells = (attempt.step, attempt.words, attempt.outcome, attempt.reason)
    return (attempt.number, *cells, ns, pcc, f"{attempt.seconds:.1f}")


def _cut(cut_off: bool) -> str:
    return "share spent" if cut_off else "all proposed"


def _sentence(text_: str) -> str:
    return f"{text_[:1].upper()}{text_[1:]}."
