# SPDX-License-Identifier: Apache-2.0
"""Where the time goes: by op type, block and layer, and step by step with cores and utilisation."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from tt_cnn.reports.html.svg import as_table, axis, label, line, picture, plot, round_steps, short, table, tag, text
from tt_cnn.reports.records import Profile, Row
from tt_cnn.reports.time_sums import TimeSum, by_block, by_layer, by_op
from tt_cnn.reports.words import counted

_SLICES = 8
"""Op types with a slice of their own; the rest share one."""
_RADIUS = 100.0


def times(profile: Profile) -> str:
    """Sums of the same steps: by op type, by block of layers, by layer."""
    blocks, layers = by_block(profile), by_layer(profile)
    parts = [_pie(profile)]
    if blocks:
        said = "Blocks stand in the order of the model, outer ones before those within them: their times do not add up."
        parts += [tag("h3", "By block"), tag("p", said), _sums_table("block", blocks, profile, "Time by block")]
    every = _sums_table("layer", layers, profile, "Time by layer")
    return "".join(parts) + as_table(f"By layer: {counted(len(layers), 'layer')}", every)


def _sums_table(what: str, sums: Sequence[TimeSum], profile: Profile, caption: str) -> str:
    return table(
        [what, "steps", "µs", "%"],
        [(one.name, one.steps, f"{one.ns / 1e3:.1f}", f"{one.percent(profile):.1f}") for one in sums],
        caption,
    )


def _pie(profile: Profile) -> str:
    ops = by_op(profile)
    total = sum(one.ns for one in ops) or 1.0
    shown = [(one.name, one.ns) for one in ops[:_SLICES]]
    rest = sum(one.ns for one in ops[_SLICES:])
    if rest:
        shown.append(("other", rest))
    slices, at = [], 0.0
    for i, (op, ns) in enumerate(shown):
        share = ns / total
        hint = tag("title", text(f"{op}: {ns / 1e3:.1f} µs, {100 * share:.1f} %"))
        slices.append(tag("g", _slice(at, at + share, i) + hint, data_op=op, data_ns=f"{ns:.1f}"))
        at += share
    title = "Time by op type: " + ", ".join(f"{op} {100 * ns / total:.0f} %" for op, ns in shown[:3])
    drawn = picture(2 * _RADIUS + 4, 2 * _RADIUS + 4, "".join(slices), title, class_="pie", id="pie")
    legend = "".join(
        tag(
            "li",
            tag("span", class_=f"swatch c{i}", aria_hidden="true")
            + tag("span", text(op), class_="op")
            + tag("span", f"{100 * ns / total:.1f} %", class_="n"),
        )
        for i, (op, ns) in enumerate(shown)
    )
    numbers = _sums_table("op", ops, profile, "Time by op type")
    return tag("div", drawn + tag("ul", legend, class_="legend"), class_="pair") + as_table("As a table", numbers)


def _slice(start: float, end: float, color: int) -> str:
    middle = _RADIUS + 2
    if end - start > 0.9999:
        return tag("circle", cx=middle, cy=middle, r=_RADIUS, class_=f"slice c{color}")
    x1, y1 = middle + _RADIUS * sin(2 * pi * start), middle - _RADIUS * cos(2 * pi * start)
    x2, y2 = middle + _RADIUS * sin(2 * pi * end), middle - _RADIUS * cos(2 * pi * end)
    large = int(end - start > 0.5)
    path = f"M{middle} {middle}L{x1:.2f} {y1:.2f}A{_RADIUS} {_RADIUS} 0 {large} 1 {x2:.2f} {y2:.2f}Z"
    return tag("path", d=path, class_=f"slice c{color}")


_LEFT, _RIGHT, _TOP, _PLOT, _BOTTOM = 56.0, 48.0, 26.0, 220.0, 34.0
_WIDTH, _PITCH = 756.0, 7.0
"""Points of a chart, and of a step in it at least: long models scroll."""


def bars(profile: Profile) -> str:
    """Kernel duration on the left axis; cores and utilisation, in percent, on the right one."""
    rows = profile.rows
    width = max(_WIDTH, _PITCH * len(rows))
    pitch = width / max(1, len(rows))
    steps = round_steps(max((row.cost.ns for row in rows), default=1.0) / 1e3)
    bottom = _TOP + _PLOT
    parts, left, right = [], [label(_LEFT - 6, 11, "µs", "end")], [label(6, 11, "%")]
    for step in steps:
        y = bottom - _PLOT * step / steps[-1]
        parts.append(line(0, y, width, y))
        left.append(label(_LEFT - 6, y + 4, short(step), "end"))
    right += [label(6, bottom - _PLOT * percent / 100 + 4, percent) for percent in (0, 25, 50, 75, 100)]
    for row in rows:
        height = max(0.5, _PLOT * row.cost.ns / 1e3 / steps[-1])
        bar = tag(
            "rect",
            tag("title", text(_hint(row))),
            x=pitch * row.index + 0.5,
            y=bottom - height,
            width=max(1.0, pitch - 1),
            height=height,
        )
        parts.append(tag("g", bar, class_="bar", data_row=row.index, data_ns=f"{row.cost.ns:.1f}"))
    points = " ".join(f"{pitch * (r.index + 0.5):.1f},{bottom - _PLOT * _cores_share(r):.1f}" for r in rows)
    parts.append(tag("polyline", points=points, class_="line cores"))
    for row in rows:
        x, y = pitch * (row.index + 0.5), bottom - _PLOT * min(1.0, row.utilization)
        parts.append(tag("circle", cx=x, cy=y, r=2.2 if row.macs else 1.2, class_="dot util"))
    parts += _signposts(profile, pitch, bottom)
    parts += step_numbers(len(rows), pitch, bottom)
    whole = bottom + _BOTTOM
    drawn = plot(width, whole, parts, "Kernel duration, cores and utilisation by step", id="bars")
    legend = key(
        (
            ("bar", "kernel duration, µs (left)"),
            ("cores", "cores in use, % (right)"),
            ("util", "utilisation, PM ideal / duration, % (right); large dots: steps that multiply"),
        )
    )
    scrolls = tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label="Chart of steps")
    framed = axis(_LEFT, whole, left) + scrolls + axis(_RIGHT, whole, right)
    scrolling = tag("p", text(f"{counted(len(rows), 'step')}: the chart scrolls.")) if width > _WIDTH else ""
    return scrolling + legend + tag("div", framed, class_="framed") + as_table("As a table", steps_table(profile))


_HALF_A_NUMBER = 12.0
"""Points: a number of four digits ends there, so that neither edge of the chart cuts one."""


def step_numbers(count: int, pitch: float, bottom: float) -> list[str]:
    """Below a chart of steps."""
    every = max(1, round(60 / pitch / 10) * 10)
    end = pitch * count
    numbers = [
        label(min(max(_HALF_A_NUMBER, pitch * (i + 0.5)), end - _HALF_A_NUMBER), bottom + 16, i, "middle")
        for i in range(0, count, every)
    ]
    return [*numbers, label(pitch * count / 2, bottom + 31, "step", "middle")]


def _signposts(profile: Profile, pitch: float, bottom: float) -> list[str]:
    parts = []
    for post in profile.signposts:
        x = pitch * post.before_row
        late = post.before_row > len(profile.rows) / 2
        said = label(x - 3, _TOP + 8, post.header, "end") if late else label(x + 3, _TOP + 8, post.header)
        parts += [line(x, _TOP, x, bottom, "signpost"), said]
    return parts


def _hint(row: Row) -> str:
    return (
        f"{row.index} {row.name} {row.op}: {row.cost.ns / 1e3:.1f} µs, {row.cores} of {row.available_cores} cores, "
        f"utilisation {row.shown_utilization[0]:.0f} %"
    )


def _cores_share(row: Row) -> float:
    return row.cores / row.available_cores if row.available_cores else 0.0


def key(entries: tuple[tuple[str, str], ...]) -> str:
    return tag(
        "ul",
        "".join(
            tag("li", tag("span", class_=f"mark {name}", aria_hidden="true") + text(said)) for name, said in entries
        ),
        class_="key",
    )


def steps_table(profile: Profile) -> str:
    total = profile.device_ns or 1.0
    return table(
        ["#", "layer", "op", "fidelity", "µs", "%", "cores", "util. %", "adjusted %", "bound by", "free KB"],
        [
            (
                row.index,
                row.name,
                row.op,
                row.fidelity,
                f"{row.cost.ns / 1e3:.1f}",
                f"{100 * row.cost.ns / total:.1f}",
                f"{row.cores}/{row.available_cores}",
                f"{row.shown_utilization[0]:.1f}",
                f"{row.shown_utilization[1]:.1f}",
                bound_by(row),
                f"{row.l1.free / 1024:.0f}",
            )
            for row in profile.rows
        ],
        "All steps of one input",
        numeric_from=4,
    )


def bound_by(row: Row) -> str:
    """The part of the card that works longest."""
    cost = row.cost
    parts = {
        "matrix": cost.matrix_ns,
        "vector": cost.vector_ns,
        "unpack, pack": cost.unpack_pack_ns,
        "DRAM": cost.dram_ns,
        "network": cost.noc_ns,
        "launch": cost.launch_ns,
    }
    return max(parts, key=lambda name: parts[name])
