# SPDX-License-Identifier: Apache-2.0
"""The summary: every op, what tells it apart, and totals that are the model's."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import torch
from torch import nn

from tests.bringup.conftest import BroughtUp, bring_up
from tt_cnn.bringup.summary import summary
from tt_cnn.bringup.tables import markdown, text_table

Zoo = Callable[[str], BroughtUp]


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "vit_small", "unet"])
def test_totals_are_the_models(zoo: Zoo, name: str) -> None:
    made = zoo(name)
    whole = summary(made.exported, title=name)
    assert len(whole.rows) == len(made.exported.nodes)
    assert whole.parameters == sum(each.numel() for each in made.model.parameters())
    fused = summary(made.program.graph)
    assert len(fused.rows) < len(whole.rows)
    assert (fused.parameters, fused.multiply_adds) == (whole.parameters, whole.multiply_adds)


def test_a_row_says_what_the_op_is(zoo: Zoo) -> None:
    rows = summary(zoo("mobilenet_v2").exported).rows
    depthwise = next(row for row in rows if row.module == "features.2.conv.1.0")
    assert depthwise.op == "conv2d" and depthwise.module_class == "Conv2d"
    assert depthwise.arguments == "kernel=3x3 stride=2x2 padding=1x1 groups=96"
    assert (depthwise.inputs, depthwise.outputs) == (((1, 96, 112, 112),), ((1, 96, 56, 56),))
    assert (depthwise.parameters, depthwise.multiply_adds) == (96 * 9, 96 * 9 * 56 * 56)
    assert depthwise.line.startswith("mobilenet.py:")


def test_after_the_passes_a_row_is_what_the_card_does_at_once(zoo: Zoo) -> None:
    rows = summary(zoo("resnet50").program.graph).rows
    assert rows[0].op == "conv2d + batch_norm + nn.ReLU()"
    assert rows[0].parameters == 64 * 3 * 49 + 2 * 64


def test_rows_differ_in_text_where_ops_differ(zoo: Zoo) -> None:
    made = zoo("swin_tiny")
    lines = summary(made.exported).to_text().splitlines()
    assert len(lines) == len(made.exported.nodes) + 4
    assert "…" not in "".join(lines)
    longest = max((row.line for row in summary(made.exported).rows), key=len)
    assert any(" ".join(longest.split()) in line for line in lines)
    assert len(set(lines[4:])) == len(made.exported.nodes)


def test_a_module_that_is_called_again_is_named_so(zoo: Zoo) -> None:
    modules = [row.module for row in summary(zoo("resnet50").exported).rows]
    assert {"layer1.0.relu", "layer1.0.relu_2", "layer1.0.relu_3"} <= set(modules)


class Odd(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4, 1, 1))
        self.register_module("a|<b>", nn.Conv2d(4, 4, 1))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second = self.get_submodule("a|<b>")(x * self.scale).chunk(2, dim=1)
        return first, second.flip(3)


def test_names_of_users_are_safe_in_markdown_and_json() -> None:
    made = bring_up(Odd(), torch.zeros(1, 4, 4, 4)).exported
    page = summary(made).to_markdown()
    assert "a\\|&lt;b&gt;" in page and "<b>" not in page
    rows = json.loads(json.dumps(summary(made).to_dict()))["rows"]
    assert [row["op"] for row in rows] == ["mul", "conv2d", "chunk", "getitem", "getitem", "flip"]
    assert rows[0]["arguments"] == "other=scale:4x1x1" and rows[0]["parameters"] == 4
    assert rows[2]["outputs"] == [[1, 2, 4, 4], [1, 2, 4, 4]]
    assert rows[4]["arguments"] == "[1]"
    assert rows[5]["arguments"] == "dims=[3]"


def test_tables_cut_nothing() -> None:
    table = text_table(("name", "n", "empty"), [("a" * 90, "1", ""), ("b", "22", "")], right=("n",))
    assert "a" * 90 in table and "empty" not in table
    assert table.splitlines()[-1].endswith("22")
    assert markdown("__init__ a_b *c*") == "\\_\\_init\\_\\_ a_b \\*c\\*"
