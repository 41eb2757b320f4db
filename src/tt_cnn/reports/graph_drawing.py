# SPDX-License-Identifier: Apache-2.0
"""A model's calls and the tensors between them, drawn as SVG: by Graphviz where it is installed, else in layers."""

from __future__ import annotations

import shutil
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from html import escape
from itertools import groupby

from tt_cnn.reports.model_summary import short_arguments
from tt_cnn.reports.records import Profile, Row

_DOT_SECONDS = 30
_COLORS = {
    "conv1d": ("#dbeafe", "#1d4ed8"),
    "conv2d": ("#dbeafe", "#1d4ed8"),
    "conv_transpose2d": ("#dbeafe", "#1d4ed8"),
    "matmul": ("#dbeafe", "#1d4ed8"),
    "linear": ("#dbeafe", "#1d4ed8"),
    "pool": ("#dcfce7", "#15803d"),
    "upsample": ("#dcfce7", "#15803d"),
    "concat": ("#fef9c3", "#a16207"),
    "add": ("#fef9c3", "#a16207"),
}
_OTHER = ("#f3f4f6", "#4b5563")
_BOX = (230, 46)
_GAP = (24, 34)


@dataclass(frozen=True)
class Node:
    number: int
    name: str
    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Edge:
    source: int
    target: int
    label: str


@dataclass(frozen=True)
class Graph:
    name: str
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]


def graph_of(profile: Profile) -> Graph:
    """A node per call; an edge where a call reads a buffer that another wrote last."""
    nodes: list[Node] = []
    edges: dict[Edge, None] = {}
    written_by: dict[int, int] = {}
    for number, rows in ((n, list(rows)) for n, rows in groupby(profile.rows, key=lambda row: row.call)):
        nodes.append(_node(number, rows))
        for row in rows:
            for tensor in row.inputs:
                source = written_by.get(tensor.buffer)
                if source is not None and source != number:
                    edges[Edge(source, number, "x".join(map(str, tensor.shape)))] = None
            written_by |= {tensor.buffer: number for tensor in row.outputs}
    return Graph(profile.model.name, tuple(nodes), tuple(edges))


def _node(number: int, rows: list[Row]) -> Node:
    first = rows[0]
    name = first.call_name.removeprefix("ttnn.")
    time = f"{sum(row.cost.ns for row in rows) / 1e3:.1f} µs on {max(row.cores for row in rows)} cores"
    arguments = short_arguments(first.arguments)
    lines = (time, arguments) if arguments else (time,)
    return Node(number, name, f"{first.layer} {name}".strip(), lines)


def draw_svg(profile: Profile) -> str:
    graph = graph_of(profile)
    return _by_graphviz(graph) or layered_svg(graph)


# --- Graphviz -------------------------------------------------------------------------------------------------------


def dot_source(graph: Graph) -> str:
    lines = [f"digraph {_quoted(graph.name)} {{", '  node [shape=box style="rounded,filled" fontname="sans-serif"];']
    lines.append('  edge [color="#6b7280" fontname="sans-serif" fontsize=9];')
    for node in graph.nodes:
        fill, line = _colors(node.name)
        label = _quoted("\n".join((node.title, node.lines[0])))
        tooltip = _quoted(" ".join(node.lines))
        lines.append(f'  n{node.number} [label={label} tooltip={tooltip} fillcolor="{fill}" color="{line}"];')
    lines += [f"  n{edge.source} -> n{edge.target} [label={_quoted(edge.label)}];" for edge in graph.edges]
    return "\n".join([*lines, "}"])


def _by_graphviz(graph: Graph) -> str | None:
    """None where Graphviz is not installed or does not manage."""
    dot = shutil.which("dot")
    if dot is None:
        return None
    try:
        done = subprocess.run(
            [dot, "-Tsvg"], input=dot_source(graph), capture_output=True, text=True, timeout=_DOT_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout[done.stdout.find("<svg") :] if "<svg" in done.stdout else None


def _quoted(text: str) -> str:
    r"""A string of the dot language; a backslash of the text stays one, a line's end is `\n`."""
    kept = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{kept}"'


def _colors(name: str) -> tuple[str, str]:
    return next((colors for part, colors in _COLORS.items() if part in name), _OTHER)


# --- our own --------------------------------------------------------------------------------------------------------


def layered_svg(graph: Graph) -> str:
    """Boxes in layers from top to bottom: a node stands below all that it reads."""
    places = _places(graph)
    width = max((x for x, _ in places.values()), default=0) + _BOX[0] + _GAP[0]
    height = max((y for _, y in places.values()), default=0) + _BOX[1] + _GAP[1]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="11" role="img"><title>{escape(graph.name)}</title>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#6b7280"/></marker></defs>',
    ]
    parts += [_line(edge, places) for edge in graph.edges]
    parts += [_box(node, *places[node.number]) for node in graph.nodes]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _places(graph: Graph) -> dict[int, tuple[int, int]]:
    """Nodes come in the order of their calls, so all that a node reads has its layer already."""
    sources: dict[int, list[int]] = defaultdict(list)
    for edge in graph.edges:
        sources[edge.target].append(edge.source)
    layers: dict[int, int] = {}
    filled: dict[int, int] = defaultdict(int)
    places: dict[int, tuple[int, int]] = {}
    for node in graph.nodes:
        layer = max((layers[source] + 1 for source in sources[node.number]), default=0)
        layers[node.number] = layer
        column, filled[layer] = filled[layer], filled[layer] + 1
        places[node.number] = (_GAP[0] + column * (_BOX[0] + _GAP[0]), _GAP[1] + layer * (_BOX[1] + _GAP[1]))
    return places


def _line(edge: Edge, places: dict[int, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    x1, x2, y1 = x1 + _BOX[0] // 2, x2 + _BOX[0] // 2, y1 + _BOX[1]
    bow = 4 * _BOX[0] // 5 if y2 - y1 > _GAP[1] else 0  # around the boxes between
    middle = (y1 + y2) // 2
    return (
        f'<path d="M{x1} {y1} C{x1 + bow} {middle} {x2 + bow} {middle} {x2} {y2}" fill="none" stroke="#6b7280" '
        f'marker-end="url(#tip)"><title>{escape(edge.label)}</title></path>'
    )


def _box(node: Node, x: int, y: int) -> str:
    fill, line = _colors(node.name)
    tooltip = escape("\n".join((node.title, *node.lines)))
    texts = "".join(_text(text, x, y + 18 + 16 * i) for i, text in enumerate((node.title, node.lines[0])))
    return (
        f'<g><title>{tooltip}</title><rect x="{x}" y="{y}" width="{_BOX[0]}" height="{_BOX[1]}" rx="6" fill="{fill}" '
        f'stroke="{line}"/>{texts}</g>'
    )


def _text(text: str, x: int, y: int) -> str:
    shown = text if len(text) <= 36 else text[:35] + "…"
    return f'<text x="{x + _BOX[0] // 2}" y="{y}" text-anchor="middle" fill="#111827">{escape(shown)}</text>'
