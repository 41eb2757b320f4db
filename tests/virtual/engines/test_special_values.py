# SPDX-License-Identifier: Apache-2.0
"""NaN, infinities, denormals and the largest numbers: every engine has them where torch has them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay import evaluate
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.graph import Graph, Node
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host, OrdinaryNumbers
from tt_cnn.virtual.engines.replay.ordinary import LARGEST

ENGINES = (*HOSTS, "cuda")
"""The steps for CUDA are run by torch."""
INF, NAN = math.inf, math.nan
MOST, SMALLEST = torch.finfo(torch.float32).max, 2.0**-126
SPECIAL = [
    NAN, INF, -INF, 0.0, -0.0, 1e-45, -1e-45, 1e-40, -1e-40, SMALLEST, -SMALLEST, MOST, -MOST, 1e20, -1e20, 1e4, -1e4,
    89.0, 88.7, 88.5, -87.5, -88.7, -95.0, -104.0, 44.3, -44.3, 20.5, 20.0, -20.0, 6.0, 3.0, -3.0, 2.5, 1.0, -1.0, 0.5,
    -0.5, 0.1, -7.25, 1e-3, 1e-7,
]  # fmt: skip
UNARY = [
    ("Relu",), ("Sigmoid",), ("Tanh",), ("Exp",), ("Log",), ("Sqrt",), ("Neg",), ("Abs",), ("Reciprocal",), ("Floor",),
    ("Ceil",), ("Erf",), ("Sin",), ("Cos",), ("silu",), ("mish",), ("HardSwish",), ("Softplus",),
    ("Softplus", 2.0, 3.0), ("rsqrt",), ("hardsigmoid",), ("leaky_relu", 0.1), ("leaky_relu", 0.0),
    ("leaky_relu", -0.5), ("elu", 1.0), ("elu", 0.5),
    ("clip", -1.0, 2.0), ("clip", 0.0, 6.0), ("clip", -INF, 2.0), ("clip", 1.0, INF),
    ("clip", 2.0, -1.0), ("gelu", "none"), ("gelu", "tanh"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Images are small: threads would only wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def compiled(engine: str, nodes: Sequence[Node]) -> Host:
    if engine != "cuda":
        return HOSTS[engine](nodes, 1)
    launches = Launches(nodes, "cpu", torch.float32)

    def run(inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for static, value in zip(launches.inputs, inputs, strict=True):
            static.copy_(value)
        launches.run()
        return launches.outputs()

    return run


def same(expected: torch.Tensor, found: torch.Tensor) -> None:
    """The same numbers but for what float32 allows, and all others at the same places."""
    assert expected.shape == found.shape
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


def ordinary(x: torch.Tensor) -> torch.Tensor:
    """What the engines themselves compute with."""
    return torch.where(x.abs() <= LARGEST, x, 0.75)


def agrees(engine: str, program: Callable[..., list[torch.Tensor]], *inputs: torch.Tensor) -> None:
    nodes = graph_of(program, inputs)
    with torch.no_grad():
        expected = program(*inputs)
    for one, other in zip(expected, compiled(engine, nodes)(inputs), strict=True):
        same(one, other)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", UNARY, ids=str)
def test_functions_of_one_number(engine: str, function: tuple[str, ...]) -> None:
    special = torch.tensor(SPECIAL)
    image, row = (20, 1, len(special)), (len(special),)  # the kernels have a step for the one, with a vector not full
    for shape in (image, row) if engine in ("kernels", "cuda") else (image,):
        graph = Graph()
        x = special.expand(1, *shape).contiguous()
        node = graph.unary(function[0], graph.input(0, tuple(x.shape)), *function[1:])
        host = compiled(engine, [node])
        for value in (x, ordinary(x)):
            same(evaluate.value_of(node, [value]), host([value])[0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", ["add", "sub", "mul", "div", "pow", "max", "min"])
def test_functions_of_two_numbers(engine: str, function: str) -> None:
    row = torch.tensor(SPECIAL)
    shape = (1, 17, len(row), len(row))
    a, b = row[:, None].expand(shape).contiguous(), row.expand(shape).contiguous()
    graph = Graph()
    node = graph.binary(function, graph.input(0, shape), graph.input(1, shape))
    host = compiled(engine, [node])
    for pair in ((a, b), (ordinary(a), ordinary(b))):
        same(evaluate.value_of(node, pair), host(pair)[0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("function", ["add", "sub", "mul", "div", "max", "min"])
def test_functions_with_a_number_a_channel(engine: str, function: str) -> None:
    row = torch.tensor([0.0, -0.0, 2.0, -1.0, 1e-40, INF, -INF, NAN]).repeat(3)[:20, None, None]
    x = torch.tensor(SPECIAL).repeat(20, 2, 1)[None].contiguous()
    for swapped in (False, True):
        graph = Graph()
        pair = graph.input(0, tuple(x.shape)), graph.constant(row)
        node = graph.binary(function, *(reversed(pair) if swapped else pair))
        same(evaluate.value_of(node, [row, x] if swapped else [x, row]), compiled(engine, [node])([x])[0])


def weight(*shape: int) -> torch.Tensor:
    """With zeros among them: infinity times zero is NaN."""
    values = torch.randn(shape, generator=torch.Generator().manual_seed(0)) / math.prod(shape[1:]) ** 0.5
    return torch.where(torch.arange(shape[1])[:, None, None] % 5 == 4, 0.0, values) if len(shape) == 4 else values


WINDOWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "Winograd": lambda x: F.conv2d(x, weight(40, 16, 3, 3), torch.ones(40), padding=1),
    "Winograd, relu": lambda x: F.relu(F.conv2d(x, weight(32, 16, 3, 3), padding=1)),
    "Winograd, added": lambda x: F.relu(F.conv2d(x, weight(16, 16, 3, 3), padding=1) + x),
    "stride": lambda x: F.conv2d(x, weight(20, 16, 3, 3), stride=2, padding=1),
    "dilation": lambda x: F.relu(F.conv2d(x[:, :3], weight(7, 3, 5, 2), padding=2, dilation=2)),
    "1x1, clip": lambda x: F.relu6(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, leaky_relu": lambda x: F.leaky_relu(F.conv2d(x, weight(20, 16, 1, 1)), 0.1),
    "1x1, silu": lambda x: F.silu(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, mish": lambda x: F.mish(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, sigmoid": lambda x: torch.sigmoid(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, tanh": lambda x: torch.tanh(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, hardswish": lambda x: F.hardswish(F.conv2d(x, weight(20, 16, 1, 1))),
    "1x1, times": lambda x: F.conv2d(x, weight(16, 16, 1, 1)) * x,
    "two": lambda x: F.relu(F.conv2d(F.relu(F.conv2d(x, weight(16, 16, 3, 3))), weight(16, 16, 3, 3))),
    "to one channel": lambda x: F.conv2d(F.relu(F.conv2d(x, weight(20, 16, 3, 3))), weight(1, 20, 1, 1)),
    "depthwise": lambda x: F.relu6(F.conv2d(x, weight(16, 1, 3, 3), torch.ones(16), 1, 1, groups=16)),
    "grouped": lambda x: F.conv2d(x, weight(8, 4, 3, 3), None, 1, 1, groups=4),
    "transposed": lambda x: F.conv_transpose2d(x, weight(16, 18, 2, 2), stride=2),
    "transposed, overlapping": lambda x: F.conv_transpose2d(x, weight(16, 18, 3, 3), stride=2, padding=1),
    "max pool": lambda x: F.max_pool2d(x, 3, 2, 1),
    "max pool, wide": lambda x: F.max_pool2d(x, 9, 1, 4),
    "max pool, dilated": lambda x: F.max_pool2d(x[:, :5], 3, 1, 1, 2),
    "average pool": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average pool, own count": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "upsample": lambda x: F.interpolate(x[:, :13], scale_factor=2),
    "mean of pixels": lambda x: x.mean((2, 3), keepdim=True),
    "mean of channels": lambda x: x.mean(1, keepdim=True).expand(x.shape) * x,
    "sum": lambda x: x.sum((1, 3)),
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin((2, 3)),
    "softmax": lambda x: x.softmax(1),
    "softmax of rows": lambda x: x.softmax(-1),
    "linear": lambda x: F.linear(x.permute(0, 2, 3, 1)[0, 0], weight(33, 16), torch.ones(33)),
    "matmul": lambda x: x @ x.transpose(2, 3),
    "concatenation": lambda x: torch.cat([F.relu(F.conv2d(x, weight(8, 16, 1, 1))), F.max_pool2d(x, 3, 1, 1), x], 1),
    "rearranged": lambda x: F.conv2d(F.pad(x, (1, 2, 3, 0)).permute(0, 1, 3, 2)[..., 1:-1], weight(8, 16, 1, 1)),
    "padded": lambda x: F.pad(x, (1, 2, 3, 0), value=-INF).permute(0, 2, 3, 1).reshape(1, -1, 16)[:, 1:-1],
}  # fmt: skip


def images() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    shape = (1, 16, 14, 15)
    spots, few, lowest = torch.randn(shape), torch.randn(shape), torch.randn(shape)
    for i, value in enumerate((NAN, INF, -INF)):
        spots.view(-1)[11 + 13 * i :: 311] = value
        few[0, 3 + i, 5, 4 * i + 2] = value
    lowest[..., 0], lowest[..., 3, :] = -INF, -INF
    return {
        "spots": spots, "few": few, "lowest": lowest, "all lowest": torch.full(shape, -INF),
        "denormal": torch.randn(shape) * 1e-40, "small": torch.randn(shape) * 1e-3, "large": torch.randn(shape) * 1e5,
    }  # fmt: skip


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("window", WINDOWS)
def test_windows_and_reductions(engine: str, window: str) -> None:
    nodes = graph_of(lambda x: [WINDOWS[window](x)], [images()["few"]])
    host = compiled(engine, nodes)
    for name, x in images().items():
        expected, (found,) = WINDOWS[window](x), host([x])
        scale = float(expected[expected.isfinite()].abs().max()) if expected.isfinite().any() else 1.0
        allowed = 1e-4 * scale + 1e-37
        message = f"{window}, {name}"
        torch.testing.assert_close(found, expected, rtol=0, atol=allowed, equal_nan=True, msg=message)


def test_an_overflow_in_a_tile_of_winograd_stays_in_its_windows() -> None:
    """A sum of four times a number and five times another is too large where the convolution's is not."""
    x = torch.zeros(1, 16, 12, 12)
    x[:, :, 5, 5], x[:, 0, 9, 2] = 1e38, MOST
    for kernel in (weight(16, 16, 3, 3) / 16, torch.ones(16, 16, 3, 3) / 64):
        agrees("kernels", lambda x, kernel=kernel: [F.conv2d(x, kernel, padding=1)], x)


# --- engines that are for ordinary numbers ---------------------------------------------------------------------------

MAKING: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "log": lambda x: F.relu(torch.log(x)),
    "reciprocal": lambda x: F.max_pool2d(torch.reciprocal(x), 2),
    "root": lambda x: torch.sqrt(x).clamp(0.5, 2.0),
    "rsqrt": lambda x: F.hardsigmoid(torch.rsqrt(x)),
    "exponential": lambda x: F.relu(F.conv2d(torch.exp(x * 100), weight(4, 8, 1, 1))),
    "quotient": lambda x: torch.maximum(1 / (x - 1), x),
    "power": lambda x: F.relu6(torch.pow(x - 3, 0.3)),
    "constant": lambda x: F.relu(x * torch.tensor([1.0, INF]).repeat(4)[:, None, None]),
}


@pytest.fixture
def by_torch(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Replays that torch had to run."""
    replays: list[object] = []
    run = OrdinaryNumbers._by_torch

    def noted(host: OrdinaryNumbers, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        replays.append(host)
        return run(host, inputs)

    monkeypatch.setattr(OrdinaryNumbers, "_by_torch", noted)
    return replays


@pytest.mark.parametrize("engine", HOSTS)
@pytest.mark.parametrize("name", MAKING)
def test_values_that_are_made_within_the_graph_are_not_lost(engine: str, name: str) -> None:
    x = torch.linspace(-1, 3, 8 * 6 * 6).reshape(1, 8, 6, 6)
    x[0, 3, 2, 2:4] = torch.tensor([0.0, 1.0])
    assert not MAKING[name](x).isfinite().all() or name in ("log", "root", "rsqrt")
    agrees(engine, lambda value: [MAKING[name](value)], x)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_torch_runs_only_what_is_not_ordinary(engine: str, by_torch: list[object]) -> None:
    kernel = weight(8, 8, 3, 3)

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        y = F.max_pool2d(F.relu(F.conv2d(x, kernel, padding=1)), 2)
        return [y / 3, F.relu(torch.log(y + 1)), torch.log(y)]

    x = torch.randn(1, 8, 12, 12)
    host = HOSTS[engine](graph_of(program, [x]), 2)
    for number, value in enumerate((x, x * 1e5, x * 0 - 1, x.clamp(max=LARGEST), x * 2e20, x / 0, x * NAN)):
        with torch.no_grad():
            expected = program(value)
        for one, other in zip(expected, host([value]), strict=True):
            torch.testing.assert_close(other, one, rtol=1e-4, atol=1e-2, equal_nan=True)
        assert len(by_torch) == max(0, number - 3)


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_an_overflow_shows_in_what_should_be_finite(engine: str, by_torch: list[object]) -> None:
    x = torch.full((1, 4, 3, 3), 1000.0)
    agrees(engine, lambda x: [F.conv2d(x, torch.full((4, 4, 1, 1), 1e36))], x)
    assert len(by_torch) == 1


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("value", [INF, NAN])
def test_weights_that_are_not_finite_meet_the_padding(engine: str, value: float) -> None:
    x, row = torch.randn(1, 16, 13, 13), torch.randn(20)
    row[3] = value
    for shape, groups in (((32, 16, 3, 3), 1), ((8, 16, 1, 1), 1), ((16, 1, 3, 3), 16)):
        kernel = weight(*shape)
        kernel[1, 0, 0, 0] = value
        agrees(engine, lambda x, k=kernel, n=groups: [F.conv2d(x, k, padding=k.shape[2] // 2, groups=n)], x)
    agrees(engine, lambda x: [F.relu(F.conv2d(x, weight(20, 16, 1, 1), row))], x)
