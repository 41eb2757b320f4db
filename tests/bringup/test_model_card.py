# SPDX-License-Identifier: Apache-2.0
"""The model card: multiply-adds and parameters as published, the task, checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from tests.bringup.conftest import BroughtUp
from tt_cnn.bringup.model_card import ModelCard, model_card, state_dict_facts
from tt_cnn.bringup.op_facts import multiply_adds
from tt_cnn.bringup.task_guess import guess_task
from tt_cnn.bringup.torch_graph import export_graph
from tt_cnn.zoo import architecture

Zoo = Callable[[str], BroughtUp]


def card_of(model: nn.Module, *inputs: torch.Tensor) -> ModelCard:
    return model_card(model, inputs, export_graph(model, inputs), name="tiny")


def macs(model: nn.Module, *inputs: torch.Tensor) -> int:
    return sum(multiply_adds(node) for node in export_graph(model.eval(), inputs).nodes)


@pytest.mark.parametrize("name", ["resnet50", "mobilenet_v2", "resnext50_32x4d", "unet", "vit_small", "swin_tiny"])
def test_parameters_and_multiply_adds_are_the_published_ones(zoo: Zoo, name: str) -> None:
    """Swin's attention is written out; after the passes it is one op, and its multiply-adds are the same."""
    entry, made = architecture(name), zoo(name)
    card = model_card(made.model, made.inputs, made.exported, name=name)
    assert card.parameters / 1e6 == pytest.approx(entry.parameters, rel=0.02)
    assert entry.gmacs is None or card.multiply_adds / 1e9 == pytest.approx(entry.gmacs, rel=0.05)
    with FlopCounterMode(display=False) as counter:
        made.model(*made.inputs)
    assert card.multiply_adds == counter.get_total_flops() // 2
    assert sum(map(multiply_adds, made.program.graph.nodes)) == card.multiply_adds


def test_resnet50_counted_by_hand(zoo: Zoo) -> None:
    """Bottlenecks: 1x1, 3x3, 1x1, and a 1x1 beside the first of each stage; the 3x3 has the stride."""
    total = 112 * 112 * 64 * 3 * 49 + 2048 * 1000
    channels, size = 64, 56
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            before = size
            size = size // 2 if block == 0 and width > 64 else size
            total += before**2 * channels * width + size**2 * (width * width * 9 + width * 4 * width)
            total += size**2 * channels * width * 4 if block == 0 else 0
            channels = 4 * width
    made = zoo("resnet50")
    assert model_card(made.model, made.inputs, made.exported, name="resnet50").multiply_adds == total == 4_089_184_256


CONVOLUTIONS: list[tuple[nn.Module, tuple[int, ...], int]] = [
    (nn.Conv2d(8, 16, 3, padding=1), (2, 8, 10, 12), 2 * 16 * 10 * 12 * 8 * 9),
    (nn.Conv2d(8, 16, 3, padding=1, groups=4), (1, 8, 10, 12), 16 * 10 * 12 * 2 * 9),
    (nn.Conv2d(8, 8, (1, 5), stride=2, groups=8), (1, 8, 9, 9), 8 * 5 * 3 * 5),
    (nn.Conv2d(4, 6, 3, dilation=2), (1, 4, 9, 9), 6 * 5 * 5 * 4 * 9),
    (nn.ConvTranspose2d(8, 6, 2, stride=2), (1, 8, 5, 5), 8 * 25 * 6 * 4),
    (nn.ConvTranspose2d(8, 6, 4, stride=2, padding=1, groups=2), (1, 8, 5, 5), 8 * 25 * 3 * 16),
    (nn.Conv1d(4, 6, 3), (1, 4, 10), 6 * 8 * 4 * 3),
    (nn.Linear(12, 5), (3, 7, 12), 3 * 7 * 12 * 5),
]


@pytest.mark.parametrize(("layer", "shape", "expected"), CONVOLUTIONS)
def test_layers_counted_by_hand(layer: nn.Module, shape: tuple[int, ...], expected: int) -> None:
    assert macs(layer, torch.zeros(shape)) == expected


class Products(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor) -> tuple[torch.Tensor, ...]:
        heads = F.scaled_dot_product_attention(q, k, k)
        return heads, q @ k.transpose(-2, -1), torch.einsum("bhqd,bhkd->bhqk", q, k)


def test_products_counted_by_hand() -> None:
    """Batch 2, 3 heads, 5 queries, 7 keys of 4 numbers: attention is two products, the others are one each."""
    assert macs(Products(), torch.zeros(2, 3, 5, 4), torch.zeros(2, 3, 7, 4)) == 4 * prod((2, 3, 5, 7, 4))


GUESSES = ["resnet18", "yolov3_tiny", "retinanet_resnet18_fpn", "unet", "pose_resnet50", "espcn_x4"]


@pytest.mark.parametrize("name", GUESSES)
def test_tasks_are_guessed_from_shapes(zoo: Zoo, name: str) -> None:
    made = zoo(name)
    card = model_card(made.model, made.inputs, made.exported, name=name)
    assert card.task == architecture(name).task
    assert "guessed: " in card.to_markdown()
    given = model_card(made.model, made.inputs, made.exported, name=name, task="depth")
    assert (given.task, given.task_guess) == ("depth", "")


def test_what_tells_nothing_is_unknown() -> None:
    assert guess_task([(1, 77)], [(1, 512)])[0] == "unknown"
    assert guess_task([(1, 3, 64, 64)], [(1, 10), (1, 2, 64, 64)])[0] == "unknown"
    assert guess_task([(1, 3, 64, 64)], [(1, 1)])[0] == "regression"


def test_the_checksum_is_of_names_shapes_and_values() -> None:
    torch.manual_seed(0)
    first, second = nn.Linear(3, 4), nn.Linear(3, 4)
    other = nn.Linear(3, 4)
    other.load_state_dict(first.state_dict())
    assert state_dict_facts(first) == state_dict_facts(other)
    assert state_dict_facts(first).sha256 != state_dict_facts(second).sha256
    assert state_dict_facts(nn.Sequential(first)).sha256 != state_dict_facts(first).sha256  # 0.weight, not weight
    reshaped = nn.Linear(4, 3)
    reshaped.weight = nn.Parameter(first.weight.detach().reshape(3, 4))
    reshaped.bias = nn.Parameter(first.bias.detach())
    assert state_dict_facts(reshaped).sha256 != state_dict_facts(first).sha256
    half = nn.Linear(3, 4).to(torch.bfloat16)
    assert len(state_dict_facts(half).sha256) == 64


def test_a_given_file_is_named_with_its_checksum(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    file.write_bytes(b"weights")
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3)), torch.zeros(2, 3, 8, 8)
    graph = export_graph(model, [x])
    card = model_card(model, [x], graph, name="a|b", licence="MIT", source="https://example.org", weights=file)
    assert card.weights.file == "weights.pt"
    assert card.weights.sha256 == hashlib.sha256(b"weights").hexdigest()
    assert json.loads(json.dumps(card.to_dict()))["inputs"][0]["shape"] == [2, 3, 8, 8]
    page = card.to_markdown()
    assert page.startswith("# a\\|b\n")
    for said in ("MIT", "https://example.org", "for a batch of 2", "2x3x8x8 float32", "2x4x6x6 float32"):
        assert said in page
    assert "MIT" in card.to_text()


def test_parameters_that_are_shared_count_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    card = card_of(model, torch.zeros(1, 4))
    assert (card.parameters, card.parameter_bytes) == (16 + 4 + 4, 96)
