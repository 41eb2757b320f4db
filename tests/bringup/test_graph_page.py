# SPDX-License-Identifier: Apache-2.0
"""The drawing: every op once, edges between ops that are there, nothing on top of each other, names escaped."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import combinations, pairwise
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from tests.bringup.conftest import BroughtUp, Fallbacks, bring_up
from tt_cnn.bringup.graph_layout import Box, Group, Leaf, lay_out
from tt_cnn.bringup.graph_page import graph_html, graph_svg
from tt_cnn.bringup.graph_picture import picture_of

Zoo = Callable[[str], BroughtUp]
SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["resnet50", "unet", "yolov3_tiny", "swin_tiny", "vit_small", "mobilenet_v2"]


def parsed(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def ops(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [each for each in root.iter(f"{SVG}g") if (each.get("class") or "").startswith("op ")]


@pytest.mark.parametrize("name", NAMES)
def test_every_op_is_drawn_exactly_once(zoo: Zoo, name: str) -> None:
    """As a node, or as a part of one; but for what does nothing and what runs when the model is made."""
    made = zoo(name)
    drawn: Counter[str] = Counter()
    for op in ops(parsed(graph_svg(made.program.graph, outcomes=made.outcomes))):
        drawn.update([op.get("data-node") or "", *(op.get("data-fused") or "").split()])
    assert set(drawn.values()) == {1}
    expected = {key for key, outcome in made.outcomes.items() if outcome.kind not in ("dropped", "constant")}
    ends = {node.name for node in made.exported.inputs} | {f"output {each}" for each in made.exported.output_names}
    assert set(drawn) == expected | ends


@pytest.mark.parametrize("name", NAMES)
def test_edges_connect_ops_that_are_there(zoo: Zoo, name: str) -> None:
    made = zoo(name)
    root = parsed(graph_svg(made.program.graph, outcomes=made.outcomes))
    known = {op.get("data-node") for op in ops(root)}
    edges = [each for each in root.iter(f"{SVG}path") if each.get("class") == "edge"]
    pairs = [(each.get("data-from"), each.get("data-to")) for each in edges]
    assert len(set(pairs)) == len(pairs)
    assert {end for pair in pairs for end in pair} == known
    for node in made.program.graph.nodes:
        for source in node.inputs():
            assert ((source.name, node.name) in pairs) == ({source.name, node.name} <= known)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_lies_on_top_of_another(zoo: Zoo, name: str) -> None:
    picture = picture_of(zoo(name).program.graph)
    layout = lay_out(picture.root, picture.edges)
    assert not [pair for pair in combinations(layout.leaves.values(), 2) if overlap(*pair)]
    boxes = [box for _, box in layout.groups]
    for one, other in combinations(boxes, 2):
        assert not overlap(one, other) or inside(one, other) or inside(other, one)
    for box in boxes:
        for leaf in layout.leaves.values():
            assert not overlap(box, leaf) or inside(leaf, box)
    whole = Box(0, 0, layout.width, layout.height)
    assert all(inside(box, whole) for box in [*boxes, *layout.leaves.values()])


@pytest.mark.parametrize("name", NAMES)
def test_edges_start_below_and_end_above_their_ops_and_miss_all_others(zoo: Zoo, name: str) -> None:
    picture = picture_of(zoo(name).program.graph)
    layout = lay_out(picture.root, picture.edges)
    for (source, target), points in layout.edges.items():
        start, end = layout.leaves[source], layout.leaves[target]
        assert points[0] == pytest.approx((start.x + start.width / 2, start.y + start.height))
        assert points[-1] == pytest.approx((end.x + end.width / 2, end.y))
        assert all(0 <= x <= layout.width and 0 <= y <= layout.height for x, y in points)
        upright = [(a, b) for a, b in pairwise(points) if abs(a[0] - b[0]) < 0.5]
        for (x, y1), (_, y2) in upright:
            line = Box(x, min(y1, y2), 0.0, abs(y2 - y1))
            hit = [name for name, box in layout.leaves.items() if overlap(line, box)]
            assert not hit, f"{source} -> {target} runs through {hit}"


def overlap(one: Box, other: Box) -> bool:
    slack = 0.01
    return (
        one.x + one.width > other.x + slack
        and other.x + other.width > one.x + slack
        and one.y + one.height > other.y + slack
        and other.y + other.height > one.y + slack
    )


def inside(one: Box, other: Box) -> bool:
    return (
        one.x >= other.x
        and one.y >= other.y
        and one.x + one.width <= other.x + other.width
        and one.y + one.height <= other.y + other.height
    )


def test_modules_are_nested_boxes(zoo: Zoo) -> None:
    picture = picture_of(zoo("resnet50").program.graph)
    labels = [group.label for group, _ in lay_out(picture.root, picture.edges).groups]
    assert labels.count("layer1  Sequential") == 1
    assert labels.count("0  Bottleneck") == 4
    assert not [label for label in labels if "Conv2d" in label]


def test_a_fallback_is_marked() -> None:
    made = bring_up(Fallbacks(), torch.zeros(1, 3, 8, 8))
    root = parsed(graph_svg(made.program.graph, outcomes=made.outcomes))
    assert sum("host" in (op.get("class") or "") for op in ops(root)) == 2


def test_a_module_that_goes_on_in_columns_is_wider_than_a_chain() -> None:
    chain = [Leaf(f"n{i}", 100, 30) for i in range(80)]
    layout = lay_out(Group("", list(chain)), [(f"n{i}", f"n{i + 1}") for i in range(79)])
    assert layout.height < 1400 and layout.width > 300


# --- the page -------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """The scripts of a page, its elements, and whether they are closed as they were opened."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in ("meta", "link", "input"):
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data


class Hostile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_module("</script><script>alert(1)</script>", nn.Sequential(nn.Conv2d(3, 4, 1), nn.ReLU()))
        self.register_module('"><img src=x>', nn.Sequential(nn.Conv2d(4, 4, 1), nn.MaxPool2d(2)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for module in self.children():
            x = module(x)
        return x


def test_names_are_escaped_everywhere() -> None:
    made = bring_up(Hostile(), torch.zeros(1, 3, 8, 8))
    title = "<script>alert(2)</script>"
    graph, outcomes = made.program.graph, made.outcomes
    page = Page(graph_html(graph, title=title, outcomes=outcomes, facts=[("<b>", "<i>")]))
    assert len(page.scripts) == 3
    assert not any("alert" in script for script in page.scripts[1:])
    assert not page.tags["img"] and not page.tags["b"]
    root = parsed(graph_svg(graph, title=title, outcomes=outcomes))
    assert title in "".join(root.itertext())


def test_the_page_stands_alone_and_tells_about_every_op(zoo: Zoo) -> None:
    made = zoo("resnet50")
    text = graph_html(made.program.graph, title="resnet50", outcomes=made.outcomes)
    page = Page(text)
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    data = json.loads(page.scripts[0])
    assert set(data) == {op.get("data-node") for op in ops(parsed(text[text.index("<svg") : text.index("</svg>") + 6]))}
    facts = dict(data["conv2d_2"]["facts"])
    assert facts["module"] == "layer1.0.conv2 (Conv2d)"
    assert facts["on the card"] == "conv2d" and facts["layers"] == "layer1.0.conv2"
    assert facts["in the model's code"].startswith("resnet.py:")
    assert "73 ops drawn, which stand for 175 of the exported graph" in text
