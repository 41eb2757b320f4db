# SPDX-License-Identifier: Apache-2.0
"""The graph: calls in order, edges along the tensors, drawn with and without Graphviz."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest

from tt_cnn.reports import graph_drawing
from tt_cnn.reports.graph_drawing import dot_source, draw_svg, graph_of, layered_svg
from tt_cnn.reports.profile import Profile

SVG = "{http://www.w3.org/2000/svg}"


def test_edges_follow_the_tensors(unet: Profile) -> None:
    graph = graph_of(unet)
    by_title = {node.title: node for node in graph.nodes}
    edges = {(edge.source, edge.target) for edge in graph.edges}
    assert len(graph.nodes) == len({row.call for row in unet.rows})
    assert all(edge.source < edge.target for edge in graph.edges)
    conv1, conv2 = by_title["encoder1.conv1 conv2d"], by_title["encoder1.conv2 conv2d"]
    assert (conv1.number, conv2.number) in edges
    reads = {edge.target for edge in graph.edges}
    assert {node.number for node in graph.nodes} - reads == {0}  # only the input's staging reads nothing of another
    joins = [n for n in graph.nodes if n.name == "concat"]
    assert all(sum(edge.target == join.number for edge in graph.edges) == 2 for join in joins) and len(joins) == 4


def test_our_own_drawing_has_every_box_and_line(unet: Profile) -> None:
    graph = graph_of(unet)
    drawn = ElementTree.fromstring(layered_svg(graph))
    boxes = drawn.findall(f"{SVG}g/{SVG}rect")
    assert len(boxes) == len(graph.nodes) and len(drawn.findall(f"{SVG}path")) == len(graph.edges)
    places = [(int(box.attrib["x"]), int(box.attrib["y"])) for box in boxes]
    assert len(set(places)) == len(places)  # no two on top of each other
    width, height = (int(drawn.attrib[side]) for side in ("width", "height"))
    assert all(0 <= x < width and 0 <= y < height for x, y in places)
    by_number = dict(zip((node.number for node in graph.nodes), places, strict=True))
    assert all(by_number[edge.source][1] < by_number[edge.target][1] for edge in graph.edges)


def test_without_graphviz_or_with_one_that_fails_we_draw(
    unet: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    expected = layered_svg(graph_of(unet))
    for found in (None, "/bin/false", "/nonexistent/dot"):
        monkeypatch.setattr(graph_drawing.shutil, "which", lambda _, found=found: found)
        assert draw_svg(unet) == expected


def test_graphviz_draws_the_same_graph(unet: Profile) -> None:
    """Where Graphviz is installed its own reading of the graph is checked; its language is checked anywhere."""
    graph = graph_of(unet)
    source = dot_source(graph)
    assert source.count(" -> ") == len(graph.edges) and source.count("fillcolor") == len(graph.nodes)
    if shutil.which("dot"):
        drawn = ElementTree.fromstring(draw_svg(unet))
        kinds = [group.attrib.get("class") for group in drawn.iter(f"{SVG}g")]
        assert kinds.count("node") == len(graph.nodes) and kinds.count("edge") == len(graph.edges)


def test_text_of_others_is_escaped(unet: Profile) -> None:
    nasty = '<img src=x onerror="alert(1)">\\" ]; a -> b; &'
    rows = tuple(replace(row, layer=nasty) for row in unet.rows)
    graph = graph_of(replace(unet, rows=rows, model=replace(unet.model, name=nasty)))
    drawn = ElementTree.fromstring(layered_svg(graph))
    assert drawn.findtext(f"{SVG}title") == nasty and not list(drawn.iter(f"{SVG}img"))
    assert dot_source(graph).count('\\\\\\" ]; a -> b;') == len(graph.nodes) + 1
    ElementTree.fromstring(draw_svg(replace(unet, rows=rows)))
