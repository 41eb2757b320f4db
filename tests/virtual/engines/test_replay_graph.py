# SPDX-License-Identifier: Apache-2.0
"""Graphs say what the torch program says, whatever became of its layout operations on the way."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual.engines.replay.capture import NotExpressible, graph_of
from tt_cnn.virtual.engines.replay.graph import Graph, Node, kept_axes, ordered, used_inputs
from tt_cnn.virtual.engines.replay.hosts import HOSTS
from tt_cnn.virtual.engines.replay.onnx_model import OnnxModel, check

Program = Callable[..., list[torch.Tensor]]


def compiled(
    program: Program, *inputs: torch.Tensor, host: str = "onnxruntime"
) -> tuple[list[Node], list[torch.Tensor]]:
    nodes = graph_of(program, inputs)
    check(OnnxModel(nodes))
    return nodes, HOSTS[host](nodes, 2)([inputs[i] for i in used_inputs(nodes)])


def agrees(program: Program, *inputs: torch.Tensor, host: str = "onnxruntime") -> list[Node]:
    nodes, found = compiled(program, *inputs, host=host)
    with torch.no_grad():
        expected = program(*inputs)
    largest = max(1.0, *(float(x.abs().max()) for x in inputs))  # of summands that cancel, the rounding is left
    for one, other in zip(expected, found, strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-5 * largest)
    return nodes


def kinds(nodes: list[Node]) -> list[str]:
    return sorted(n.kind for n in ordered(nodes) if n.kind not in ("constant", "input"))


def as_the_card_stores(x: torch.Tensor) -> torch.Tensor:
    """An image flattened, channels last, padded to tiles: what lies between two TT-NN ops."""
    n, c, h, w = x.shape
    flat = x.permute(0, 2, 3, 1).reshape(1, 1, n * h * w, c)
    return F.pad(flat, (0, -c % 32, 0, -(n * h * w) % 32))


def as_an_image(x: torch.Tensor, shape: tuple[int, int, int, int]) -> torch.Tensor:
    n, c, h, w = shape
    return x[:, :, : n * h * w, :c].reshape(n, h, w, c).permute(0, 3, 1, 2)


@pytest.mark.parametrize("host", HOSTS)
def test_layout_between_convolutions_vanishes(host: str) -> None:
    first, second = torch.randn(8, 3, 3, 3), torch.randn(5, 8, 1, 1)
    bias = torch.randn(1, 8)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.conv2d(F.pad(x, (1, 1, 1, 1)), first)
        rows = F.relu(y.permute(0, 2, 3, 1).reshape(-1, 8) + bias)
        stored = as_the_card_stores(rows.reshape(2, 7, 9, 8).permute(0, 3, 1, 2))
        z = F.conv2d(as_an_image(F.mish(stored), (2, 8, 7, 9)), second)
        return [z]

    nodes = agrees(program, torch.randn(2, 3, 7, 9), host=host)
    assert kinds(nodes) == ["conv", "conv", "unary", "unary"]
    convolution = next(n for n in ordered(nodes) if n.kind == "conv")
    assert convolution.params[1] == (1, 1, 1, 1) and len(convolution.inputs) == 3


def test_residual_adds_and_concatenations_stay_in_image_form() -> None:
    weight = torch.randn(6, 6, 3, 3)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        a = as_the_card_stores(F.conv2d(x, weight, padding=1))
        b = as_the_card_stores(F.conv2d(as_an_image(a, (1, 6, 5, 5)), weight, padding=1))
        both = torch.cat([(a + b)[:, :, :25, :6], a[:, :, :25, :6]], dim=3)
        return [F.max_pool2d(both.reshape(1, 5, 5, 12).permute(0, 3, 1, 2), 3, 1, 1)]

    assert kinds(agrees(program, torch.randn(1, 6, 5, 5))) == ["binary", "cat", "conv", "conv", "max_pool"]


def test_nearest_upsampling_by_picking_is_one_resize() -> None:
    rows, columns = torch.arange(8) // 2, torch.arange(12) // 2

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        image = x.permute(0, 2, 3, 1)
        return [image[:, rows][:, :, columns].permute(0, 3, 1, 2)]

    assert kinds(agrees(program, torch.randn(1, 3, 4, 6))) == ["repeat"]


@pytest.mark.parametrize(
    "program",
    [
        lambda x: [F.conv_transpose2d(x, torch.ones(4, 3, 2, 2), stride=2)],
        lambda x: [F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)],
        lambda x: [F.max_pool2d(F.pad(x, (1, 0, 0, 1), value=-math.inf), (3, 2), (2, 1))],
        lambda x: [x.mean(dim=(2, 3), keepdim=True), x.permute(0, 2, 3, 1).amax(dim=3)],
        lambda x: [F.softmax(x.permute(0, 2, 3, 1), dim=-1)],
        lambda x: [x.reshape(6, 40) @ torch.linspace(-1, 1, 80).reshape(40, 2) + torch.ones(2)],
        lambda x: [x.clamp(0, 6), F.leaky_relu(x, 0.1), F.silu(x), F.hardswish(x)],
        lambda x: [F.elu(x), F.gelu(x), torch.rsqrt(x.abs() + 1)],
        lambda x: [2 - x, x - 2, x / 3, torch.maximum(x, -x), x**2, x * 1, x + 0],
        lambda x: list(x.split([1, 3], dim=1)),
        lambda x: [x[:, 1], x[:, :, ::2], x.unsqueeze(0).expand(3, -1, -1, -1, -1), x[:, :0:1].sum() + x],
    ],
)  # fmt: skip
@pytest.mark.parametrize("host", HOSTS)
def test_each_operation_agrees_with_torch(program: Program, host: str) -> None:
    agrees(program, torch.randn(2, 4, 5, 6), host=host)


def test_what_no_engine_has_is_said_by_name() -> None:
    with pytest.raises(NotExpressible, match=r"aten\.sort"):
        graph_of(lambda x: [x.sort()[0]], [torch.randn(4)])


def test_what_no_output_needs_may_be_anything() -> None:
    (node,) = graph_of(lambda x: [x + x.sort()[0].shape[0]], [torch.randn(4)])
    assert node.kind == "binary"


def test_values_that_decide_and_changes_in_place_are_refused() -> None:
    def writes(x: torch.Tensor) -> list[torch.Tensor]:
        whole = torch.zeros(8)
        whole[:4] = x
        return [whole]

    with pytest.raises(NotExpressible, match="decides"):
        graph_of(lambda x: [x if x.sum() > 0 else -x], [torch.randn(4)])
    with pytest.raises(NotExpressible, match=r"aten\.copy_"):
        graph_of(writes, [torch.randn(4)])


def test_constants_are_computed_once_and_inputs_not_at_all() -> None:
    """Inputs of a capture may hold anything: only their shapes count."""
    weight, seen = torch.randn(4), []

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        seen.append(x)
        return [x * (weight.exp() + 1)]

    value = torch.full((4,), torch.nan)
    (node,) = graph_of(program, [value])
    assert len(seen) == 1 and seen[0] is not value
    assert node.inputs[1].value is not None and torch.equal(node.inputs[1].value, weight.exp() + 1)


def test_what_follows_from_constants_is_computed_once() -> None:
    weight = torch.randn(4, 4)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        return [x @ (weight.t() * 2).exp()]

    assert kinds(agrees(program, torch.randn(3, 4))) == ["matmul"]


def test_equal_nodes_are_one() -> None:
    graph = Graph()
    x = graph.input(0, (2, 3))
    assert graph.unary("Relu", x) is graph.unary("Relu", x)
    assert graph.permute(graph.permute(x, (1, 0)), (1, 0)) is x
    assert graph.reshape(graph.reshape(x, (6,)), (2, 3)) is x


@pytest.mark.parametrize(
    ("inner", "outer", "kept"),
    [
        ((2, 4, 5, 8), (1, 1, 40, 8), {3: 3}),
        ((1, 1, 40, 8), (2, 4, 5, 8), {3: 3}),
        ((2, 3, 4), (2, 12), {0: 0}),
        ((6, 4), (2, 3, 4), {2: 1}),
        ((1, 5, 1), (5,), {0: 1}),
        ((2, 2), (2, 2), {0: 0, 1: 1}),
        ((4, 6), (6, 4), {}),
    ],
)
def test_axes_that_a_reshape_keeps(inner: tuple[int, ...], outer: tuple[int, ...], kept: dict[int, int]) -> None:
    assert kept_axes(inner, outer) == kept


def _step(draw: st.DrawFn, shape: tuple[int, ...]) -> Callable[[torch.Tensor], torch.Tensor]:
    """A random layout or element-wise operation that fits the shape."""
    rank = len(shape)
    kind = draw(st.sampled_from(["permute", "merge", "split", "pad", "cut", "unary", "row", "with_itself", "cat"]))
    axis = draw(st.integers(0, rank - 1))
    if kind == "permute":
        dims = draw(st.permutations(range(rank)))
        return lambda x: x.permute(*dims)
    if kind == "merge" and rank > 1:
        at = draw(st.integers(0, rank - 2))
        merged = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
        return lambda x: x.reshape(merged)
    if kind == "split" and shape[axis] % 2 == 0 and rank < 5:
        parts = (*shape[:axis], 2, shape[axis] // 2, *shape[axis + 1 :])
        return lambda x: x.reshape(parts)
    if kind == "pad":
        before, after = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        sides = [0, 0] * (rank - 1 - axis) + [before, after]
        return lambda x: F.pad(x, sides, value=0.5)
    if kind == "cut" and shape[axis] > 1:
        start = draw(st.integers(0, shape[axis] - 1))
        return lambda x: x.narrow(axis, start, shape[axis] - start)
    if kind == "row":
        row = torch.linspace(-1, 1, shape[axis]).reshape([shape[axis] if i == axis else 1 for i in range(rank)])
        return lambda x: x * row
    if kind == "with_itself":
        dims = list(range(rank))
        twin = next(((i, j) for i in dims for j in dims if i < j and shape[i] == shape[j]), None)
        return (lambda x: x + x.transpose(*twin)) if twin else (lambda x: x + x.neg())
    if kind == "cat" and math.prod(shape) < 2000:
        return lambda x: torch.cat([x, x.sigmoid()], axis)
    return torch.tanh


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_chain_of_layout_operations_agrees_with_torch(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    torch.manual_seed(0)
    x = torch.randn(shape)
    steps: list[Callable[[torch.Tensor], torch.Tensor]] = []
    value = x
    for _ in range(data.draw(st.integers(1, 8))):
        step = _step(data.draw, tuple(value.shape))
        steps.append(step)
        value = step(value)

    def program(start: torch.Tensor) -> list[torch.Tensor]:
        result = start
        for step in steps:
            result = step(result)
        return [result, start + 0.25]

    agrees(program, x)


ARGUMENTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "hardtanh": F.hardtanh,
    "hardtanh, own bounds": lambda x: F.hardtanh(x, -2, 0.5),
    "softplus": F.softplus,
    "softplus, steep": lambda x: F.softplus(x, 2.0, 3.0),
    "softplus, downwards": lambda x: F.softplus(x, -0.5),
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "elu": lambda x: F.elu(x, 0.5),
    "leaky_relu": F.leaky_relu,
    "scaled addend": lambda x: torch.add(x, 2, alpha=3) + torch.sub(x, x, alpha=0.5) + torch.rsub(x, 2, alpha=3),
    "clamp by tensors": lambda x: x.clamp(torch.zeros(4, 1, 1), torch.linspace(0, 1, 6)).clamp_max(torch.tensor(0.7)),
    "clamp from above": lambda x: x.clamp(2, -1),
    "sum of all": lambda x: x.abs().sum(dim=[]) + x.sum(0) + x.amax(),
    "powers": lambda x: x**2 + x**3 + x.abs() ** 0.5 + x.abs() ** -0.5 + x**-1 + x**-2 + 2**x + x.abs() ** 1.5,
    "mean as float32": lambda x: x.mean(1, dtype=torch.float32) + x.softmax(1, dtype=torch.float32).amin(1),
    "average with a divisor": lambda x: F.avg_pool2d(x, 3, 2, 1, divisor_override=5),
}


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_functions_count(name: str, host: str) -> None:
    agrees(lambda x: [ARGUMENTS[name](x)], torch.linspace(-4, 4, 96).reshape(1, 4, 4, 6), host=host)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.softplus(x, 1.0, 100.0),  # torch's own overflows before it becomes linear
        lambda x: x.clamp(min=math.nan),
        lambda x: x.mean(1, dtype=torch.float64),
        lambda x: x.sum(dtype=torch.float64),
        lambda x: torch.div(x, 3, rounding_mode="floor"),
        lambda x: F.interpolate(x[:, :, :3, :3], scale_factor=2.3),  # 6 of 3 pixels, not each of them twice
        lambda x: F.max_pool2d(x[0], 2),
        lambda x: F.selu(x),
    ],
)
def test_arguments_without_a_node_are_said_to_have_none(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    with pytest.raises(NotExpressible):
        graph_of(lambda x: [function(x)], [torch.zeros(1, 4, 4, 6)])
