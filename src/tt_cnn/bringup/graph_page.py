# SPDX-License-Identifier: Apache-2.0
"""The torch model's graph as SVG, and as a page that stands alone: pan, zoom, search, details of each op."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files

from tt_cnn.bringup.graph_layout import Box, Group, Layout, Point, lay_out
from tt_cnn.bringup.graph_picture import FAMILIES, DrawnOp, Picture, picture_of
from tt_cnn.bringup.outcomes import Outcome
from tt_cnn.bringup.torch_graph import TorchGraph
from tt_cnn.reports.html.page import facts_html, page_html
from tt_cnn.reports.html.svg import number, tag, text

_ROUND = 8.0
"""Of corners in edges."""


def graph_svg(graph: TorchGraph, *, title: str = "", outcomes: Mapping[str, Outcome] | None = None) -> str:
    """Modules as nested boxes, ops in layers. After the passes fused ops are one node.

    `outcomes` (of `tt_cnn.bringup.outcomes`) mark what falls back, and name the exported ops that a node stands for.
    """
    return _svg(picture_of(graph, outcomes), title or type(graph.model).__name__)


def graph_html(
    graph: TorchGraph,
    *,
    title: str = "",
    outcomes: Mapping[str, Outcome] | None = None,
    facts: Sequence[tuple[str, str]] = (),
) -> str:
    """A page without anything from outside. `facts`: value and what it is, for tiles above the graph."""
    picture = picture_of(graph, outcomes)
    name = title or type(graph.model).__name__
    shown = len(graph.nodes) - picture.left_out
    parts = sum(len(op.fused) for op in picture.ops.values())
    said = f"{shown} ops drawn" + (f", which stand for {shown + parts} of the exported graph" if parts else "")
    if picture.left_out:
        said += f"; {picture.left_out} on parameters alone are left out: they run when the model is made"
    content = (
        _tools()
        + _key(picture)
        + tag(
            "div",
            tag("div", _svg(picture, name), class_="graph-view")
            + tag(
                "div",
                tag("p", "A click on an op tells about it."),
                class_="graph-side",
                role="status",
            ),
            class_="graph-pair",
        )
    )
    data = {op.name: {"title": op.title, "facts": op.facts, "search": _searched(op)} for op in picture.ops.values()}
    scripts = (
        tag("style", _file("graph_page.css"))
        + f'<script type="application/json" id="graph-data">{_json(data)}</script>'
        + f"<script>{_file('graph.js')}</script>"
    )
    header = facts_html(said + ".", facts)
    return page_html(name, header, [("graph", "Graph", content)], "Drawn by tt-cnn from torch.export.", scripts)


def _searched(op: DrawnOp) -> str:
    return " ".join([op.name, op.title, op.where, *op.fused, *(said for _, said in op.facts)]).lower()


def _tools() -> str:
    field = '<input type="search" id="graph-search" placeholder="Find ops: name, module, shape" aria-label="Find ops">'
    buttons = "".join(
        tag("button", said, type="button", id=f"graph-{name}")
        for name, said in (("in", "Zoom in"), ("out", "Zoom out"), ("fit", "All of it"))
    )
    return tag("div", field + buttons + tag("output", "", id="graph-found"), class_="graph-tools")


def _key(picture: Picture) -> str:
    used = {op.family.split()[0] for op in picture.ops.values()}
    entries = (
        tag("li", tag("span", "", class_=f"mark {family}") + text(said))
        for family, said in FAMILIES.items()
        if family in used
    )
    return tag("ul", "".join(entries), class_="key")


# --- SVG ------------------------------------------------------------------------------------------------------------


def _svg(picture: Picture, title: str) -> str:
    layout = lay_out(picture.root, picture.edges)
    parts = [
        tag("title", text(title)),
        tag("style", _file("graph.css")),
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto" '
        'markerUnits="userSpaceOnUse">'
        '<path d="M0 0 8 4 0 8z" class="tip"/></marker></defs>',
        *(_module(group, box) for group, box in layout.groups),
        *_edges(layout),
        *(_label(group, box) for group, box in layout.groups),
        *(_op(op, layout.leaves[op.name]) for op in picture.ops.values()),
    ]
    return tag(
        "svg",
        "\n".join(parts),
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {number(layout.width)} {number(layout.height)}",
        width=float(layout.width),
        height=float(layout.height),
        class_="graph",
        role="img",
    )


def _module(group: Group, box: Box) -> str:
    return tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=8, class_="module")


def _label(group: Group, box: Box) -> str:
    """Above the edges, which may enter a box anywhere."""
    return tag("text", text(group.label), x=box.x + 10, y=box.y + 16, class_="module")


def _edges(layout: Layout) -> list[str]:
    return [
        tag("path", class_="edge", data_from=source, data_to=target, d=_curve(points), marker_end="url(#tip)")
        for (source, target), points in layout.edges.items()
    ]


def _curve(points: Sequence[Point]) -> str:
    """Straight lines with round corners; slanted ones leave and arrive upright."""
    kept: list[Point] = []
    for point in points:
        if not kept or abs(point[0] - kept[-1][0]) + abs(point[1] - kept[-1][1]) > 0.5:
            kept.append(point)
    said = f"M{_at(kept[0])}"
    for index in range(1, len(kept)):
        (x0, y0), (x, y) = kept[index - 1], kept[index]
        if abs(x - x0) > 0.5 and abs(y - y0) > 0.5:
            middle = (y0 + y) / 2
            said += f"C{_at((x0, middle))} {_at((x, middle))} {_at((x, y))}"
        elif index + 1 < len(kept) and _is_corner(kept[index - 1], kept[index], kept[index + 1]):
            before, after = _towards(kept[index], kept[index - 1]), _towards(kept[index], kept[index + 1])
            said += f"L{_at(before)}Q{_at(kept[index])} {_at(after)}"
        else:
            said += f"L{_at((x, y))}"
    return said


def _is_corner(a: Point, b: Point, c: Point) -> bool:
    """From upright to level, or the other way round."""
    first = (abs(b[0] - a[0]) > 0.5, abs(b[1] - a[1]) > 0.5)
    second = (abs(c[0] - b[0]) > 0.5, abs(c[1] - b[1]) > 0.5)
    return first != second and first != (True, True) and second != (True, True)


def _towards(start: Point, end: Point) -> Point:
    length = abs(end[0] - start[0]) + abs(end[1] - start[1])
    share = min(_ROUND, length / 2) / length
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share


def _at(point: Point) -> str:
    return f"{number(round(point[0], 1))} {number(round(point[1], 1))}"


def _op(op: DrawnOp, box: Box) -> str:
    x = box.x + box.width / 2
    lines = tag("text", text(op.title), x=x, y=box.y + 15)
    if op.where:
        lines += tag("text", text(op.where), x=x, y=box.y + 28, class_="where")
    tooltip = tag("title", text("\n".join(f"{what}: {said}" for what, said in op.facts)))
    rect = tag("rect", x=box.x, y=box.y, width=box.width, height=box.height, rx=5)
    return tag(
        "g",
        tooltip + rect + lines,
        class_=f"op {op.family}",
        data_node=op.name,
        data_fused=" ".join(op.fused) or None,
        tabindex=0,
        role="button",
    )


def _json(data: object) -> str:
    """Safe inside a script element, whatever names a model has."""
    said = json.dumps(data, ensure_ascii=True, separators=(",", ":"))
    return said.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return files("tt_cnn.reports.html").joinpath(name).read_text(encoding="utf-8")
