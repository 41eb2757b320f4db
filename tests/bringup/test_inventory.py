# SPDX-License-Identifier: Apache-2.0
"""The inventory: what each op became, and issue texts whose scripts run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import tt_cnn
from tests.bringup.conftest import BroughtUp, Fallbacks, bring_up
from tt_cnn.bringup.inventory import Inventory, inventory, issue_text, reproducer

Zoo = Callable[[str], BroughtUp]


def of(made: BroughtUp) -> Inventory:
    return inventory(made.exported, made.program, title="model")


def cells(found: Inventory) -> set[tuple[str, str, int, str]]:
    return {(row.op, row.kind, row.count, row.becomes) for row in found.rows}


def test_resnet50(zoo: Zoo) -> None:
    found = of(zoo("resnet50"))
    assert cells(found) == {
        ("conv2d", "mapped", 53, "conv2d"),
        ("add", "mapped", 16, "add"),
        ("adaptive_avg_pool2d", "mapped", 1, "global_avg_pool2d"),
        ("linear", "mapped", 1, "linear"),
        ("max_pool2d", "mapped", 1, "max_pool2d"),
        ("batch_norm", "fused", 53, "conv2d"),
        ("relu", "fused", 33, "conv2d"),
        ("relu", "fused", 16, "add"),
        ("flatten", "view", 1, ""),
    }
    assert found.totals.startswith("all 175 ops run on the card, no fallback")
    assert not found.issues()


@pytest.mark.parametrize("name", ["resnet50", "swin_tiny", "vit_small", "unet_bilinear", "mobilenet_v2", "yolov3_tiny"])
def test_every_exported_op_is_counted_once(zoo: Zoo, name: str) -> None:
    made = zoo(name)
    found = of(made)
    assert sum(found.counts.values()) == len(made.exported.nodes)
    assert found.counts.get("fallback", 0) == len(found.fallbacks)
    kept = {node.name for node in made.program.graph.nodes}
    for key, outcome in made.outcomes.items():
        assert (outcome.kind == "fused") == bool(outcome.into)
        assert outcome.into in kept | {""}, f"{key} is part of an op that is not there"


class Kinds(nn.Module):
    """One op of each kind."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.squeeze = nn.Conv2d(8, 8, 1)
        self.drop = nn.Dropout(0.5)
        self.scale = nn.Parameter(torch.ones(8, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.conv(F.pad(x, (1, 1, 1, 1)))
        x = x * torch.sigmoid(x)
        gate = self.squeeze(F.adaptive_avg_pool2d(x, 1))
        unused = x.exp()  # noqa: F841
        x = self.drop(x) * gate + self.scale.reshape(1, 8, 1, 1)
        return torch.i0(x).flatten(1)


def test_each_kind() -> None:
    found = of(bring_up(Kinds(), torch.zeros(1, 3, 8, 8)))
    kinds = {(row.op, row.kind) for row in found.rows}
    assert {
        ("pad", "fused"),
        ("conv2d", "mapped"),
        ("sigmoid", "fused"),
        ("mul", "fused"),
        ("conv2d", "decomposed"),
        ("exp", "dropped"),
        ("dropout", "dropped"),
        ("mul", "mapped"),
        ("reshape", "constant"),
        ("i0", "fallback"),
    } <= kinds
    text = found.to_text()
    assert text.startswith("model: 1 of ")
    assert "a 1x1 convolution of one pixel is a linear layer: linear" in text
    assert json.loads(json.dumps(found.to_dict()))["counts"]["fallback"] == 1


def test_a_fallback_says_why_what_it_moves_and_where() -> None:
    found = of(bring_up(Kinds(), torch.zeros(1, 3, 8, 8)))
    (fallback,) = found.fallbacks
    assert (fallback.bytes_to_host, fallback.bytes_to_card) == (2 * 8 * 64, 2 * 8 * 64)
    assert fallback.line.startswith("test_inventory.py:") and "torch.i0(x)" in fallback.line
    assert fallback.why == "TT-CNN has no rule for it yet (TT-NN 0.81.1 has ttnn.i0)"  # which is not TT-NN's fault
    assert "1,024" in found.to_markdown()


class HardToLower(nn.Module):
    """Ops that nobody lowers, with arguments of all kinds: parameters, lists, numbers that are none, integers."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("places", torch.tensor([0, 2, 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.cdist(x, self.table)
        x = torch.nan_to_num(x, nan=0.5, posinf=float("inf"))
        x = torch.index_copy(x, 1, self.places, x[:, :3])
        return torch.logcumsumexp(x, 2)


def test_reproducers_run(tmp_path: Path) -> None:
    """All in one process, since importing torch is what takes time."""
    found = of(bring_up(HardToLower(), torch.zeros(1, 4, 6))).fallbacks
    assert {"cdist", "logcumsumexp"} <= {each.op for each in found}
    lines = ran("\n".join(reproducer(each) for each in found), tmp_path)
    shapes = [line.split(") ")[0] + ")" for line in lines if line.startswith("torch: ")]
    assert shapes == [f"torch: {each.outputs[0]}" for each in found]


def test_an_issue_is_ready_to_file(tmp_path: Path) -> None:
    found = of(bring_up(Fallbacks(), torch.zeros(1, 3, 8, 8)))
    assert len(found.fallbacks) == 2
    (issue,) = found.issues()
    title, *_ = issue.splitlines()
    assert title == ("# aten.i0.default runs on the host: TT-CNN has no rule for it yet (TT-NN 0.81.1 has ttnn.i0)")
    facts = {" ".join(line.split()) for line in issue.splitlines()}
    assert {"x 1x3x8x8 float32", "result 1x3x8x8 float32", "in first (Bessel)", "TT-NN 0.81.1"} <= facts
    assert f"torch {torch.__version__}" in facts
    assert any(fact.startswith("also in second, 1x4x6x6, conftest.py:") for fact in facts)
    (script,) = re.findall(r"```python\n(.*?)```", issue, re.DOTALL)
    assert ran(script, tmp_path)[:2] == ["torch: (1, 3, 8, 8) torch.float32", "ttnn.i0: there"]


def test_an_op_that_tt_nn_does_not_have_is_said_so(tmp_path: Path) -> None:
    class Distances(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.cdist(x, y)

    (fallback,) = of(bring_up(Distances(), torch.zeros(1, 5, 4), torch.zeros(1, 7, 4))).fallbacks
    issue = issue_text(fallback)
    assert issue.startswith("# TT-NN has no op for torch's aten.cdist.default\n")
    assert ran(reproducer(fallback), tmp_path)[:2] == ["torch: (1, 5, 7) torch.float32", "ttnn.cdist: no such op"]


def ran(script: str, folder: Path) -> list[str]:
    file = folder / "reproducer.py"
    file.write_text(script)
    sources = str(Path(str(tt_cnn.__file__)).parents[1])
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, env={"PYTHONPATH": sources}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
