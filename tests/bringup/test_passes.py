# SPDX-License-Identifier: Apache-2.0
"""Passes: what is folded, fused and drawn together, and what must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import Written
from tt_cnn.bringup.passes import prepare
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode, export_graph

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "c": lambda: nn.Conv2d(8, 8, 3, padding=1),
    "n": lambda: nn.BatchNorm2d(8),
    "fc": lambda: nn.Linear(8, 24),
    "drop": lambda: nn.Dropout(),
}


def prepared(forward: Callable[..., Any], shape: tuple[int, ...] = (1, 8, 4, 4)) -> TorchGraph:
    model = Written(forward, **{name: made() for name, made in LAYERS.items()})
    return prepare(export_graph(model, [torch.zeros(shape)]))


def ops(graph: TorchGraph) -> list[str]:
    return [node.op for node in graph.nodes]


def only(graph: TorchGraph, op: str) -> TorchNode:
    (found,) = [node for node in graph.nodes if node.op == op]
    return found


def test_a_batch_norm_and_an_activation_go_into_the_convolution() -> None:
    graph = prepared(lambda m, x: F.relu(m.n(m.c(x))))
    assert ops(graph) == ["conv2d"]
    assert graph.nodes[0].fused["norm"] == "n" and graph.nodes[0].fused["activation"] == "nn.ReLU()"


@pytest.mark.parametrize(
    ("forward", "left"),
    [
        (lambda m, x: (lambda y: m.n(y) + y)(m.c(x)), ["conv2d", "batch_norm", "add"]),
        (lambda m, x: (lambda y: (m.n(y), y))(m.c(x)), ["conv2d", "batch_norm"]),
        (lambda m, x: (lambda y: F.relu(y) + y)(m.c(x)), ["conv2d", "relu", "add"]),
        (lambda m, x: (lambda y: (F.relu(y), y))(m.c(x)), ["conv2d", "relu"]),
        (lambda m, x: m.n(F.relu(m.c(x))), ["conv2d", "batch_norm"]),
        (lambda m, x: m.n(F.max_pool2d(m.c(x), 2)), ["conv2d", "max_pool2d", "batch_norm"]),
    ],
    ids=["read elsewhere", "output", "activation read", "activation output", "activation between", "pool between"],
)
def test_nothing_is_folded_that_somebody_else_reads(forward: Callable[..., Any], left: list[str]) -> None:
    graph = prepared(forward)
    assert ops(graph) == left
    assert all("norm" not in node.fused for node in graph.nodes)


def test_an_activation_goes_into_a_sum_of_tensors() -> None:
    graph = prepared(lambda m, x: F.relu(m.c(x) + x))
    assert ops(graph) == ["conv2d", "add"] and graph.nodes[1].fused["activation"] == "nn.ReLU()"


def test_sums_with_0_and_products_with_1_are_dropped() -> None:
    graph = prepared(lambda m, x: F.relu((m.c(x) + x + 0) * 1.0))
    assert ops(graph) == ["conv2d", "add"] and graph.nodes[1].fused["activation"] == "nn.ReLU()"
    assert ops(prepared(lambda m, x: 0 - m.c(x) * 2)) != ["conv2d"]
    assert ops(prepared(lambda m, x: torch.div(m.c(x), 1, rounding_mode="floor"))) == ["conv2d", "div"]


def test_two_activations_are_not_one() -> None:
    graph = prepared(lambda m, x: torch.sigmoid(F.relu(m.c(x))))
    assert ops(graph) == ["conv2d", "sigmoid"]


def test_zeros_around_an_image_become_padding() -> None:
    graph = prepared(lambda m, x: m.c(F.pad(x, (0, 1, 2, 3))))
    assert ops(graph) == ["conv2d"] and graph.nodes[0].fused["extra_padding"] == (2, 3, 0, 1)


@pytest.mark.parametrize(
    "forward",
    [
        lambda m, x: m.c(F.pad(x, (1, 1), value=1.0)),
        lambda m, x: (lambda y: (m.c(y), y))(F.pad(x, (1, 1))),
        lambda m, x: (lambda y: m.c(y).sum() + y.sum())(F.pad(x, (1, 1))),
    ],
    ids=["ones", "output", "read elsewhere"],
)
def test_other_padding_stays(forward: Callable[..., Any]) -> None:
    graph = prepared(forward)
    assert "pad" in ops(graph) and all("extra_padding" not in node.fused for node in graph.nodes)


def test_borders_that_repeat_values_are_no_padding_of_zeros() -> None:
    graph = prepared(lambda m, x: m.c(F.pad(x, (1, 1, 1, 1), mode="reflect")))
    assert set(ops(graph)) == {"slice", "cat", "conv2d"}
    assert all("extra_padding" not in node.fused for node in graph.nodes)


def test_activations_that_are_written_out() -> None:
    assert ops(prepared(lambda _, x: x * torch.sigmoid(x))) == ["silu"]
    assert ops(prepared(lambda _, x: torch.sigmoid(x) * x)) == ["silu"]
    assert ops(prepared(lambda _, x: x * torch.tanh(F.softplus(x)))) == ["mish"]


def test_a_gate_of_another_tensor_is_no_silu() -> None:
    assert ops(prepared(lambda m, x: m.c(x) * torch.sigmoid(x))) == ["conv2d", "sigmoid", "mul"]
    assert "mish" not in ops(prepared(lambda _, x: x * torch.tanh(F.softplus(x, beta=2))))


def test_a_gate_that_is_read_elsewhere_stays() -> None:
    graph = prepared(lambda _, x: (lambda gate: (x * gate, gate))(torch.sigmoid(x)))
    assert sorted(ops(graph)) == ["sigmoid", "silu"]


def qkv(m: Any, x: torch.Tensor) -> list[torch.Tensor]:
    return list(m.fc(x).reshape(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0))


def written_out(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return (q @ k.transpose(-2, -1) * 0.25).softmax(-1) @ v


def scaled_query(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return ((q * 0.5) @ k.transpose(-2, -1) / 2).softmax(-1) @ v


def with_bias(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return (0.25 * (q @ k.transpose(-2, -1)) + torch.ones(6, 6)).softmax(-1) @ v


@pytest.mark.parametrize(("forward", "bias"), [(written_out, False), (scaled_query, False), (with_bias, True)])
def test_attention_that_is_written_out(forward: Callable[..., Any], bias: bool) -> None:
    graph = prepared(forward, (1, 6, 8))
    attention = only(graph, "scaled_dot_product_attention")
    assert attention.arguments["scale"] == 0.25 and (attention.arguments["attn_mask"] is not None) == bias
    assert not {"softmax", "matmul"} & set(ops(graph))


def windows(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    scores = q @ k.transpose(-2, -1) + torch.ones(1, 2, 6, 6)
    mask = torch.zeros(2, 6, 6)
    scores = (scores.view(2, 2, 2, 6, 6) + mask.unsqueeze(1).unsqueeze(0)).view(4, 2, 6, 6)
    return scores.softmax(-1) @ v


def test_bias_and_masks_of_windows_are_one_mask() -> None:
    graph = prepared(windows, (4, 6, 8))
    mask = only(graph, "scaled_dot_product_attention").arguments["attn_mask"]
    assert mask.op == "add" and mask.shape == (4, 2, 6, 6)


def scaled_bias(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return ((q @ k.transpose(-2, -1) + torch.ones(6, 6)) * 0.5).softmax(-1) @ v


def other_dimension(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return (q @ k.transpose(-2, -1)).softmax(-2) @ v


def computed_between(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = qkv(m, x)
    return F.relu(q @ k.transpose(-2, -1)).softmax(-1) @ v


@pytest.mark.parametrize("forward", [scaled_bias, other_dimension, computed_between])
def test_what_is_no_attention_stays(forward: Callable[..., Any]) -> None:
    assert "scaled_dot_product_attention" not in ops(prepared(forward, (1, 6, 8)))


def test_weights_of_attention_that_are_returned_are_computed() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        q, k, v = qkv(m, x)
        weights = (q @ k.transpose(-2, -1)).softmax(-1)
        return weights @ v, weights

    graph = prepared(forward, (1, 6, 8))
    assert "softmax" in ops(graph) and graph.outputs[1].op == "softmax"


def test_ops_that_do_nothing_are_dropped() -> None:
    assert ops(prepared(lambda m, x: m.drop(m.c(x)).contiguous().clone().view(1, 8, 4, 4).float())) == ["conv2d"]


def test_a_tensor_that_is_written_in_place_is_its_result_from_then_on() -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.c(x)
        y.add_(x)
        return y * 2

    graph = prepared(forward)
    assert ops(graph) == ["conv2d", "add", "mul"] and graph.nodes[2].arguments["self"].op == "add"


@pytest.mark.parametrize("written", ["view", "base"])
def test_what_is_written_behind_a_views_back_is_seen(written: str) -> None:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        y = m.c(x)
        z = y.view(1, 8, 16)
        (z if written == "view" else y).relu_()
        return (y if written == "view" else z) * 2

    (mul,) = [node for node in prepared(forward).nodes if node.op == "mul"]
    read = next(mul.inputs())
    while read.op in ("view", "reshape"):
        read = next(read.inputs())
    assert read.op == "relu" or "activation" in read.fused


def test_a_squeeze_and_excitation_that_is_read_inside_stays() -> None:
    def forward(m: Any, x: torch.Tensor) -> Any:
        squeezed = x.mean((2, 3), keepdim=True)
        return x * torch.sigmoid(m.one(F.relu(m.two(squeezed)))), squeezed

    made = Written(forward, one=nn.Conv2d(8, 8, 1), two=nn.Conv2d(8, 8, 1))
    assert "squeeze_excite" not in ops(prepare(export_graph(made, [torch.zeros(1, 8, 4, 4)])))
