# SPDX-License-Identifier: Apache-2.0
"""A core's L1 over the steps: circular buffers from below, tensors from above; and what the page tells of each step."""

from __future__ import annotations

from typing import Any

from tt_cnn.reports.html.svg import as_table, axis, label, line, plot, table, tag, text
from tt_cnn.reports.html.time_charts import bound_by, key, step_numbers
from tt_cnn.reports.records import BufferRecord, Profile, Row

_LEFT, _TOP, _PLOT, _BOTTOM = 56.0, 24.0, 240.0, 34.0
_WIDTH, _PITCH = 804.0, 7.0
"""Points of a chart, and of a step in it at least: long models scroll."""
TIGHT = 0.05
"""Of a core's L1: with less room than that a slightly larger input would clash."""


def l1_timeline(profile: Profile) -> str:
    rows, size = profile.rows, profile.l1_size
    width = max(_WIDTH, _PITCH * len(rows))
    pitch = width / max(1, len(rows))
    bottom = _TOP + _PLOT
    parts, left = (
        [tag("rect", x=0, y=_TOP, width=width, height=_PLOT, class_="free")],
        [label(_LEFT - 6, 11, "KB", "end")],
    )
    for quarter in range(5):
        y = bottom - _PLOT * quarter / 4
        parts.append(line(0, y, width, y))
        left.append(label(_LEFT - 6, y + 4, f"{size * quarter / 4 / 1024:.0f}", "end"))
    tightest = profile.tightest
    for row in rows:
        parts.append(_column(row, pitch * row.index, pitch, size, bottom, row is tightest))
    parts += step_numbers(len(rows), pitch, bottom)
    drawn = plot(width, bottom + _BOTTOM, parts, "L1 per core at every step", id="l1-picture")
    first = tightest.index if tightest is not None else 0
    slider = tag(
        "div",
        drawn,
        id="l1",
        class_="scroll pick",
        tabindex=0,
        role="slider",
        aria_label="Step of the L1 timeline; arrow keys choose one",
        aria_valuemin=0,
        aria_valuemax=max(0, len(rows) - 1),
        aria_valuenow=first,
    )
    marks = (
        ("tensors", "tensors, from above"),
        ("buffers", "circular buffers, from below"),
        ("free-mark", "free"),
        ("tight", f"tight: under {100 * TIGHT:.0f} % free"),
    )
    details = tag("div", _details_without_script(profile), id="l1-details", class_="card", aria_live="polite")
    framed = tag("div", axis(_LEFT, bottom + _BOTTOM, left) + slider, class_="framed")
    return _summary(profile) + key(marks) + framed + details + as_table("As a table", _table(profile))


def _column(row: Row, x: float, pitch: float, size: int, bottom: float, is_tightest: bool) -> str:
    used, above = _PLOT * row.l1.buffers / size, _PLOT * row.l1.tensors / size
    width = max(1.0, pitch - 0.6)
    inside = tag("rect", x=x, y=_TOP, width=pitch, height=_PLOT, class_="hit")
    inside += tag("rect", x=x, y=_TOP, width=width, height=above, class_="tensors")
    inside += tag("rect", x=x, y=bottom - used, width=width, height=used, class_="buffers")
    if row.l1.free < TIGHT * size:
        inside += tag(
            "rect", x=x, y=_TOP + above, width=width, height=max(1.5, _PLOT * row.l1.free / size), class_="tight"
        )
    if is_tightest:
        inside += tag("path", d=f"M{x + pitch / 2 - 5:.1f} {bottom + 7:.1f}l5 -6l5 6z", class_="pointer")
    hint = f"{row.index} {row.name} {row.op}: {row.l1.free / 1024:.0f} KB free"
    return tag("g", inside + tag("title", text(hint)), class_="step", data_row=row.index)


def _summary(profile: Profile) -> str:
    row = profile.tightest
    if row is None:
        return tag("p", "No steps.")
    peak, size, free = profile.l1_peak / 1024, profile.l1_size / 1024, row.l1.free / 1024
    said = (
        f"A core's L1 is fullest at step {row.index}, {row.op} of {row.name}: {peak:.0f} of {size:.0f} KB, {free:.0f} "
        "KB of headroom. It would clash there first: circular buffers or tensors that grow by more do not fit."
    )
    return tag("p", text(said))


def _table(profile: Profile) -> str:
    return table(
        ["#", "layer", "op", "buffers KB", "tensors KB", "peak KB", "headroom KB"],
        [
            (
                row.index,
                row.name,
                row.op,
                f"{row.l1.buffers / 1024:.1f}",
                f"{row.l1.tensors / 1024:.1f}",
                f"{(row.l1.buffers + row.l1.tensors) / 1024:.1f}",
                f"{row.l1.free / 1024:.1f}",
            )
            for row in profile.rows
        ],
        "L1 per core at every step",
        numeric_from=3,
    )


def _details_without_script(profile: Profile) -> str:
    return tag("p", "Choose a step to see what a core's L1 holds.") if profile.rows else ""


def step_data(profile: Profile) -> list[dict[str, Any]]:
    """What the page's script shows of a step, as text and numbers."""
    return [_step(profile, row) for row in profile.rows]


def _step(profile: Profile, row: Row) -> dict[str, Any]:
    held = [profile.buffers[i] for i in profile.held(row.index)]
    in_l1 = sorted((b for b in held if b.buffer_type in ("L1", "L1_SMALL") and b.bank_bytes), key=lambda b: -b.address)
    tables = [b for b in in_l1 if not b.shape]
    tensors = [_buffer(b) for b in in_l1 if b.shape]
    if tables:
        tensors.insert(0, [tables[0].made_by, sum(b.bank_bytes for b in tables), min(b.address for b in tables), ""])
    return {
        "name": row.name,
        "op": row.op,
        "call": row.call_name,
        "us": round(row.cost.ns / 1e3, 2),
        "cores": f"{row.cores} of {row.available_cores}",
        "bound": bound_by(row),
        "fidelity": row.fidelity,
        "buffers": row.l1.buffers,
        "tensors": row.l1.tensors,
        "free": row.l1.free,
        "cbs": [[b.address, b.bytes, b.name] for b in row.circular_buffers if not b.borrowed],
        "held": tensors,
    }


def _buffer(buffer: BufferRecord) -> list[Any]:
    what = f"{'×'.join(map(str, buffer.shape))} {buffer.dtype.lower()}"
    return [what, buffer.bank_bytes, buffer.address, buffer.made_by or ("there before" if buffer.born_before else "")]
