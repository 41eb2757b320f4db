# SPDX-License-Identifier: Apache-2.0
"""The roofline: how fast steps multiply beside how often they use what they fetch from DRAM."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, floor, log10

from tt_cnn.reports.html.svg import as_table, label, line, picture, short, table, tag, text
from tt_cnn.reports.html.time_charts import key
from tt_cnn.reports.records import Profile, Row
from tt_cnn.virtual.cost.figures import figures_of
from tt_cnn.virtual.cost.tensix import FLOP_PER_CYCLE, PHASES
from tt_cnn.virtual.types.enums import MathFidelity

_LEFT, _RIGHT, _TOP, _PLOT_W, _PLOT_H, _BOTTOM = 64.0, 40.0, 14.0, 700.0, 280.0, 40.0

"""Of a core's matrix engine at LoFi, as upstream's performance models count."""


def peak_tflops(profile: Profile, fidelity: str) -> float:
    """All cores at one fidelity."""
    card = profile.card_data
    return card.cores * FLOP_PER_CYCLE * card.clock_ghz / 1e3 / PHASES[MathFidelity[fidelity]]


def dram_gb_per_s(profile: Profile) -> float:
    return figures_of(profile.card_data).pm_dram_gib_per_s * 2**30 / 1e9


def intensity(row: Row) -> float:
    """Floating point operations per byte from DRAM; without any such byte, a byte counts."""
    return 2 * row.macs / max(1, row.dram_bytes)


def tflops(row: Row) -> float:
    return 2 * row.macs / row.cost.ns / 1e3


def roofline(profile: Profile) -> str:
    rows = [row for row in profile.rows if row.macs and row.cost.ns]
    if not rows:
        return tag("p", "No step multiplies.")
    bandwidth = dram_gb_per_s(profile)
    fidelities = [name for name in ("LoFi", "HiFi2", "HiFi3", "HiFi4") if any(row.fidelity == name for row in rows)]
    peaks = {name: peak_tflops(profile, name) for name in ({"LoFi"} | set(fidelities))}
    highest = max(peaks.values())
    ridge = highest * 1e3 / bandwidth
    low_x, high_x = _decades([intensity(row) for row in rows] + [ridge])
    low_y, high_y = _decades([tflops(row) for row in rows] + [highest])

    def x(value: float) -> float:
        return _LEFT + _PLOT_W * (log10(value) - low_x) / (high_x - low_x)

    def y(value: float) -> float:
        return _TOP + _PLOT_H * (high_y - log10(value)) / (high_y - low_y)

    parts = _axes(low_x, high_x, low_y, high_y, x, y)
    start = max(10.0**low_x, 10.0**low_y * 1e3 / bandwidth)
    parts.append(line(x(start), y(start * bandwidth / 1e3), x(ridge), y(highest), "roof"))
    for name, peak in peaks.items():
        left = max(peak * 1e3 / bandwidth, 10.0**low_x)
        parts += [line(x(left), y(peak), _LEFT + _PLOT_W, y(peak), "roof")]
        parts.append(label(_LEFT + _PLOT_W - 4, y(peak) - 4, f"{name} {peak:.0f} TFLOP/s", "end"))
    longest = max(row.cost.ns for row in rows)
    for row in rows:
        said = (
            f"{row.name} {row.op}: {tflops(row):.2f} TFLOP/s, {intensity(row):.0f} FLOP/B, {row.cost.ns / 1e3:.1f} µs"
        )
        radius = 2.5 + 6.5 * (row.cost.ns / longest) ** 0.5
        parts.append(
            tag(
                "circle",
                tag("title", text(said)),
                cx=x(intensity(row)),
                cy=y(tflops(row)),
                r=radius,
                class_=f"point f{row.fidelity or 'none'}",
                data_row=row.index,
            )
        )
    title = f"Roofline of {profile.card}: {highest:.0f} TFLOP/s, {bandwidth:.0f} GB/s of DRAM"
    drawn = picture(_LEFT + _PLOT_W + _RIGHT, _TOP + _PLOT_H + _BOTTOM, "".join(parts), title, id="roofline")
    numbers = table(
        ["layer", "op", "fidelity", "FLOP/B", "TFLOP/s", "of the roof %"],
        [
            (
                row.name,
                row.op,
                row.fidelity,
                f"{intensity(row):.0f}",
                f"{tflops(row):.2f}",
                f"{100 * tflops(row) / _roof(profile, row):.1f}",
            )
            for row in rows
        ],
        "Roofline",
        numeric_from=3,
    )
    return (
        tag("p", text(f"{title}. Each point is a step that multiplies; the larger, the longer it takes."))
        + key(tuple((f"f{name}", name) for name in fidelities))
        + tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label=title)
        + as_table("As a table", numbers)
    )


def _roof(profile: Profile, row: Row) -> float:
    return min(peak_tflops(profile, row.fidelity or "LoFi"), intensity(row) * dram_gb_per_s(profile) / 1e3)


def _decades(values: list[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values) * 1.05))
    return low, max(high, low + 1)


def _axes(
    low_x: int, high_x: int, low_y: int, high_y: int, x: Callable[[float], float], y: Callable[[float], float]
) -> list[str]:
    parts, bottom = [], _TOP + _PLOT_H
    for power in range(low_x, high_x + 1):
        at = x(10.0**power)
        parts += [line(at, _TOP, at, bottom), label(at, bottom + 16, short(10.0**power), "middle")]
    for power in range(low_y, high_y + 1):
        at = y(10.0**power)
        parts += [line(_LEFT, at, _LEFT + _PLOT_W, at), label(_LEFT - 6, at + 4, short(10.0**power), "end")]
    parts.append(label(_LEFT + _PLOT_W / 2, bottom + 33, "FLOP per byte from DRAM", "middle"))
    parts.append(label(_LEFT + 4, _TOP + 10, "TFLOP/s"))
    return parts
