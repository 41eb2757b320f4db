# SPDX-License-Identifier: Apache-2.0
"""The timeline of both command queues, a few inputs long."""

from __future__ import annotations

from tt_cnn.reports.html.svg import as_table, label, line, picture, round_steps, short, table, tag, text
from tt_cnn.reports.html.time_charts import key
from tt_cnn.reports.records import Profile, Span

_LEFT, _RIGHT, _TOP, _LANE, _PLOT = 72.0, 16.0, 20.0, 44.0, 780.0
_NAMES = {"step": "kernels", "write": "write to the card", "read": "read from the card"}


def queue_timeline(profile: Profile) -> str:
    spans = profile.timeline
    if not spans:
        return tag("p", "Nothing was enqueued.")
    end = max(span.end_ns for span in spans)
    queues = sorted({span.queue for span in spans} | {0})
    bottom = _TOP + _LANE * len(queues)
    scale = _PLOT / end if end else 0.0
    parts = []
    for step in round_steps(end / 1e6):
        x = _LEFT + step * 1e6 * scale
        if x <= _LEFT + _PLOT + 1:
            parts += [line(x, _TOP - 4, x, bottom), label(x, bottom + 15, short(step), "middle")]
    for lane, queue in enumerate(queues):
        y = _TOP + _LANE * lane
        parts.append(label(_LEFT - 8, y + _LANE / 2 + 4, f"queue {queue}", "end", "name"))
        parts += [_rect(span, y + 5, scale) for span in spans if span.queue == queue]
    parts.append(label(_LEFT + _PLOT, bottom + 29, "ms", "end"))
    title = f"Both queues with {profile.executor}"
    drawn = picture(_LEFT + _PLOT + _RIGHT, bottom + 34, "".join(parts), title, id="queues")
    marks = (
        *((("step-before", "kernels of the input before"),) if any(span.input < 0 for span in spans) else ()),
        ("step-even", "kernels of an input"),
        ("step-odd", "kernels of the next input"),
        ("write", "writes"),
        ("read", "reads"),
    )
    return (
        key(marks)
        + tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=title)
        + as_table("As a table", _table(spans))
        + _executors(profile)
    )


def _rect(span: Span, y: float, scale: float) -> str:
    which = "before" if span.input < 0 else ("odd" if span.input % 2 else "even")
    kind = f"step-{which}" if span.kind == "step" else span.kind
    took = (span.end_ns - span.start_ns) / 1e3
    hint = tag("title", text(f"{span.name}, {_input(span)}: {took:.1f} µs from {span.start_ns / 1e3:.1f} µs"))
    width = max(0.35, (span.end_ns - span.start_ns) * scale)
    return tag(
        "rect", hint, x=_LEFT + span.start_ns * scale, y=y, width=width, height=_LANE - 10, class_=f"span {kind}"
    )


def _input(span: Span) -> str:
    return f"input {span.input}" if span.input >= 0 else "an input before"


def _table(spans: tuple[Span, ...]) -> str:
    """Steps of a queue that follow each other are one line."""
    lines: list[list[float | str | int]] = []
    for span in sorted(spans, key=lambda one: (one.queue, one.start_ns)):
        what: list[float | str | int] = [span.queue, span.input if span.input >= 0 else "before", _NAMES[span.kind]]
        if lines and lines[-1][:3] == what:
            lines[-1][4] = span.end_ns
            lines[-1][5] = int(lines[-1][5]) + 1
        else:
            lines.append([*what, span.start_ns, span.end_ns, 1])
    rows = [(q, i, w, n, f"{float(a) / 1e3:.1f}", f"{float(b) / 1e3:.1f}") for q, i, w, a, b, n in lines]
    return table(["queue", "input", "what", "count", "from µs", "to µs"], rows, "Both queues", numeric_from=3)


def _executors(profile: Profile) -> str:
    rows = [
        (
            one.executor + (" (shown)" if one.executor == profile.executor else ""),
            f"{one.fps:.0f}",
            f"{one.input_ns / 1e6:.3f}",
            f"{one.latency_ns / 1e6:.3f}",
        )
        for one in profile.executors
    ]
    return table(["executor", "fps", "ms per input", "latency ms"], rows, "End to end, predicted")
