# SPDX-License-Identifier: Apache-2.0
"""PCC by layer, where it was measured."""

from __future__ import annotations

from collections.abc import Mapping

from tt_cnn.reports.html.svg import as_table, label, line, picture, table, tag, text

_BAR, _PITCH, _TOP = 520.0, 20.0, 26.0
_CHARACTER = 6.6
"""Points of a wide one in the chart's font: names are not cut."""
_LOW = 0.9
"""The axis begins here unless a layer is worse."""
GOOD = 0.99


def pcc_chart(pcc: Mapping[str, float]) -> str:
    low = min([_LOW, *(value - 0.02 for value in pcc.values())])
    left = 24 + _CHARACTER * max(len(layer) for layer in pcc)
    height = _TOP + _PITCH * len(pcc) + 6
    parts = []
    for tick in range(5):
        value = low + (1 - low) * tick / 4
        x = left + _BAR * tick / 4
        parts += [line(x, _TOP - 6, x, height), label(x, 14, f"{value:.3f}", "middle")]
    for i, (layer, value) in enumerate(pcc.items()):
        y = _TOP + _PITCH * i
        width = max(1.0, _BAR * (value - low) / (1 - low))
        hint = tag("title", text(f"{layer}: PCC {value:.5f}"))
        class_ = "pcc" if value >= GOOD else "pcc bad"
        parts.append(label(left - 8, y + 12, layer, "end", "name"))
        parts.append(
            tag("rect", hint, x=left, y=y + 2, width=width, height=_PITCH - 5, class_=class_, data_pcc=str(value))
        )
    worst = min(pcc, key=lambda layer: pcc[layer])
    said = f"The lowest is {pcc[worst]:.4f}, of {worst}. Below {GOOD} a layer deserves a look."
    drawn = picture(left + _BAR + 30, height, "".join(parts), "PCC by layer", id="pcc")
    numbers = table(["layer", "PCC"], [(layer, f"{value:.5f}") for layer, value in pcc.items()], "PCC by layer")
    box = tag("div", drawn, class_="scroll", tabindex=0, role="region", aria_label="PCC by layer")
    return tag("p", text(said)) + box + as_table("As a table", numbers)
