# SPDX-License-Identifier: Apache-2.0
"""The model in words and as a graph: what it is, which ops of TT-NN it calls, and every call of it."""

from __future__ import annotations

from tt_cnn.reports.html.svg import as_table, table, tag, text
from tt_cnn.reports.model_summary import card_facts, missing_in_ttnn, op_uses, summary_rows
from tt_cnn.reports.records import Profile


def model_section(profile: Profile, graph: str | None) -> str:
    """`graph` is the SVG that `graph_drawing.draw_svg` made: all text in it is escaped."""
    headings, rows = summary_rows(profile)
    uses = op_uses(profile)
    there = {True: "yes", False: "missing"}
    ops = [(f"ttnn.{use.name}", there[use.in_ttnn], there[use.on_virtual_card], use.calls) for use in uses]
    parts = [
        table(["", ""], card_facts(profile), "Model card", numeric_from=2),
        table(["op", "TT-NN 0.81.1", "virtual card", "calls"], ops, "Ops of TT-NN that it calls", numeric_from=3),
        tag("p", text(missing_in_ttnn(uses))),
        as_table(f"All {len(rows)} calls", table(headings, rows, "Calls of one input", numeric_from=6)),
    ]
    if graph is not None:
        drawing = tag(
            "div", graph[graph.index("<svg") :], class_="scroll graph", tabindex=0, role="region", aria_label="Graph"
        )
        parts.append(as_table("Graph of the calls", drawing))
    return "".join(parts)
