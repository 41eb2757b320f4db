# SPDX-License-Identifier: Apache-2.0
"""Graphs in 8 bits on the kernels, beside the same graphs in torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tt_cnn.virtual.engines.replay.eight_bit.guard import Search
from tt_cnn.virtual.engines.replay.eight_bit.witnesses import Watched, WatchedGraph
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.graph import Graph, Node, ordered
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.engines.replay.int8 import replay as int8_replay
from tt_cnn.virtual.engines.replay.int8.rewrite import Int8Rounding
from tt_cnn.virtual.engines.replay.kernels.bytes import in_bytes
from tt_cnn.virtual.engines.replay.kernels.fusion import is_step

EXACT, ROUGH = 2e-6, 0.02
"""Of the largest value: float sums in another order; a byte beside the right one, after activations that are rough."""

Build = Callable[["Drawn", Node], Node]


@pytest.fixture(autouse=True)
def own_choices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was measured is kept in the cache folder here, so the library need not be compiled again."""
    monkeypatch.setattr("tt_cnn.virtual.engines.replay.choice._file", lambda: tmp_path / "replay.json")


class Drawn:
    """A graph with weights by chance."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = Graph()
        self.random = torch.Generator().manual_seed(seed)

    def constant(self, *shape: int) -> Node:
        return self.graph.constant(torch.randn(shape, generator=self.random))

    def conv(
        self, x: Node, out: int, kernel: Sequence[int], stride: int = 1, groups: int = 1, dilation: int = 1
    ) -> Node:
        height, width = kernel
        inner = x.shape[1] // groups
        scale = (inner * height * width) ** -0.5
        weight = self.graph.constant(torch.randn(out, inner, height, width, generator=self.random) * scale)
        top, left = dilation * (height - 1) // 2, dilation * (width - 1) // 2
        sides = (top, left, dilation * (height - 1) - top, dilation * (width - 1) - left)
        return self.graph.conv(x, weight, self.constant(out), (stride, stride), sides, (dilation, dilation), groups)

    def depthwise(self, x: Node, kernel: int, stride: int = 1) -> Node:
        return self.conv(x, x.shape[1], (kernel, kernel), stride, groups=x.shape[1])

    def pool(self, x: Node) -> Node:
        n, c, h, w = x.shape
        return self.graph.pool(x, "max_pool", (2, 2), (2, 2), (0, 0, 0, 0), (n, c, h // 2, w // 2), (1, 1))

    def twice(self, x: Node) -> Node:
        return self.graph.repeat(self.graph.repeat(x, 2, 2), 3, 2)

    def up(self, x: Node, out: int) -> Node:
        n, c, h, w = x.shape
        weight = self.graph.constant(torch.randn(c, out, 2, 2, generator=self.random) / c**0.5)
        shape = (n, out, 2 * h, 2 * w)
        return self.graph.conv_transpose(
            x, weight, self.constant(out), (2, 2), (0, 0, 0, 0), ((1, 1), (0, 0)), 1, shape
        )

    def relu(self, x: Node) -> Node:
        return self.graph.unary("Relu", x)

    def add(self, a: Node, b: Node) -> Node:
        return self.graph.binary("add", a, b)


def plain(d: Drawn, x: Node) -> Node:
    return d.conv(d.relu(d.conv(x, 33, (3, 3))), 70, (1, 1))


def of_colours(d: Drawn, x: Node) -> Node:
    return d.conv(
        d.relu(d.conv(d.graph.slice(x, (0, 0, 0, 0), (*x.shape[:1], 3, *x.shape[2:])), 64, (7, 7), 2)), 16, (3, 3)
    )


def residual(d: Drawn, x: Node) -> Node:
    a = d.relu(d.conv(x, 64, (1, 1)))
    b = d.conv(d.relu(d.conv(a, 32, (3, 3))), 64, (1, 1))
    c = d.relu(d.add(b, a))
    e = d.relu(d.add(d.conv(c, 64, (3, 3), 2), d.conv(c, 64, (1, 1), 2)))
    return d.conv(e, 20, (1, 1))


def added_after(d: Drawn, x: Node) -> Node:
    a = d.relu(d.conv(x, 48, (3, 3)))
    return d.conv(d.add(d.relu(d.conv(a, 48, (3, 3))), a), 24, (1, 5))


def channel_by_channel(d: Drawn, x: Node) -> Node:
    a = d.graph.unary("clip", d.conv(x, 40, (3, 3), 2), 0.0, 6.0)
    b = d.depthwise(d.graph.unary("clip", d.depthwise(a, 3), 0.0, 6.0), 5, 2)
    return d.conv(d.graph.unary("leaky_relu", b, 0.1), 24, (1, 1))


def joined(d: Drawn, x: Node) -> Node:
    a = d.relu(d.conv(x, 32, (3, 3)))
    return d.conv(d.graph.cat([d.twice(d.pool(a)), a], 1), 48, (3, 3))


def upward(d: Drawn, x: Node) -> Node:
    return d.conv(d.relu(d.up(d.relu(d.conv(x, 32, (3, 3))), 24)), 1, (1, 1))


def dilated(d: Drawn, x: Node) -> Node:
    return d.conv(d.relu(d.conv(x, 16, (3, 3), dilation=2)), 5, (3, 2), 2)


def linear(d: Drawn, x: Node) -> Node:
    mean = d.graph.reduce("mean", d.relu(d.conv(x, 64, (3, 3))), (2, 3), False)
    return d.add(d.graph.matmul(mean, d.constant(64, 10)), d.constant(10))


def in_8_bits(node: Node, samples: Sequence[Sequence[torch.Tensor]]) -> list[Node]:
    rounding = Int8Rounding([node], samples)
    return rounding.quantized([node], rounding.layers)


def pictures(shape: tuple[int, ...], count: int = 3) -> list[list[torch.Tensor]]:
    draw = torch.Generator().manual_seed(1)
    return [[torch.randn(shape, generator=draw)] for _ in range(count)]


def differs(found: torch.Tensor, expected: torch.Tensor) -> float:
    assert found.shape == expected.shape
    return float((found - expected).abs().max() / expected.abs().max().clamp_min(1e-9))


def assert_near(found: torch.Tensor, expected: torch.Tensor) -> None:
    """A sum in another order, or a rough activation, may lie beyond the middle between two bytes: then the other one is
    taken, which all that follows takes. Not more than that, and not often."""
    assert differs(found, expected) < ROUGH
    assert float(((found - expected).abs() > EXACT * expected.abs().max()).float().mean()) < 0.25


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("shape", [(1, 16, 16, 16), (2, 24, 13, 11), (1, 5, 9, 30)])
@pytest.mark.parametrize(
    "build",
    [plain, of_colours, residual, added_after, channel_by_channel, dilated, linear],
    ids=lambda one: one.__name__,
)
def test_the_same_numbers_as_torch(build: Build, shape: tuple[int, ...], threads: int) -> None:
    drawn, samples = Drawn(), pictures(shape)
    nodes = in_8_bits(build(drawn, drawn.graph.input(0, shape)), samples)
    assert any(node.kind.startswith("byte_") for node in ordered(in_bytes(nodes)))
    host = Kernels(nodes, threads)
    for sample in samples:
        assert differs(host(sample)[0], evaluated(nodes, sample)[0]) < EXACT


@pytest.mark.parametrize("shape", [(1, 16, 16, 16), (2, 3, 12, 20)])
@pytest.mark.parametrize("build", [joined, upward], ids=lambda one: one.__name__)
def test_pools_upsampling_and_concatenations_hand_on_bytes(build: Build, shape: tuple[int, ...]) -> None:
    drawn, samples = Drawn(), pictures(shape)
    nodes = in_8_bits(build(drawn, drawn.graph.input(0, shape)), samples)
    whole = in_bytes(nodes)
    assert not any(node.kind == "dequantize" for node in ordered(whole)), "what passes bytes on made floats of them"
    for sample in samples:
        assert_near(Kernels(nodes, 2)(sample)[0], evaluated(nodes, sample)[0])


@pytest.mark.parametrize("name", ["Sigmoid", "silu", "mish", "Tanh", "Exp"])
def test_activations_before_a_byte_are_near_enough(name: str) -> None:
    shape = (1, 16, 20, 20)
    drawn, samples = Drawn(), pictures(shape)
    x = drawn.graph.input(0, shape)
    nodes = in_8_bits(drawn.conv(drawn.graph.unary(name, drawn.conv(x, 32, (3, 3))), 32, (1, 1)), samples)
    assert_near(Kernels(nodes, 1)(samples[0])[0], evaluated(nodes, samples[0])[0])


def by_chance(seed: int) -> Node:
    """A network of layers, pools, joins and sums as they come."""
    choose, drawn = random.Random(seed), Drawn(seed)
    sides = (choose.choice([6, 8, 12, 17]), choose.choice([6, 10, 16, 23]))
    shape = (choose.choice([1, 2]), choose.choice([1, 3, 16, 20, 64]), *sides)
    made = [drawn.graph.input(0, shape)]
    for _ in range(choose.randint(3, 9)):
        x = choose.choice(made[-3:])
        kind = choose.choice(["conv", "conv", "conv", "depthwise", "pool", "twice", "up", "join", "add", "mul"])
        beside = [one for one in made if one.shape == x.shape and one is not x]
        level = [one for one in made if one.shape[2:] == x.shape[2:] and one is not x]
        if kind == "conv":
            kernel = (choose.choice([1, 2, 3, 5]), choose.choice([1, 3, 7]))
            y = drawn.conv(x, choose.choice([1, 3, 16, 32, 40, 65]), kernel, choose.choice([1, 1, 2]))
        elif kind == "depthwise":
            y = drawn.depthwise(x, choose.choice([3, 5, 7, 9]), choose.choice([1, 2, 3]))
        elif kind == "pool" and min(x.shape[2:]) >= 2:
            y = drawn.pool(x)
        elif kind == "twice" and x.shape[2] < 24:
            y = drawn.twice(x)
        elif kind == "up" and x.shape[2] < 24:
            y = drawn.up(x, choose.choice([8, 24]))
        elif kind == "join" and level:
            y = drawn.graph.cat([x, choose.choice(level)], 1)
        elif kind == "add" and beside:
            y = drawn.add(x, choose.choice(beside))
        elif kind == "mul":
            y = drawn.graph.binary("mul", x, drawn.constant(1, x.shape[1], 1, 1))
        else:
            continue
        if choose.random() < 0.6:
            y = choose.choice([drawn.relu(y), drawn.graph.unary("leaky_relu", y, 0.2)])
        made.append(y)
    return drawn.conv(made[-1], choose.choice([1, 2, 10]), (1, 1))


@pytest.mark.parametrize("seed", range(40))
def test_networks_by_chance(seed: int) -> None:
    node = by_chance(seed)
    (shape,) = {one.shape for one in ordered([node]) if one.kind == "input"}
    samples = pictures(shape)
    choose = random.Random(seed)
    rounding = Int8Rounding([node], samples)
    layers = [one for one in rounding.layers if choose.random() < 0.8]
    nodes = rounding.quantized([node], layers)
    host = Kernels(nodes, choose.choice([1, 2]))
    for sample in [*samples, [3.0 * samples[0][0]]]:
        assert_near(host(sample)[0], evaluated(nodes, sample)[0])


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_what_no_byte_stands_for_is_computed_by_torch(bad: float) -> None:
    shape = (1, 16, 12, 12)
    drawn, samples = Drawn(), pictures(shape)
    nodes = in_8_bits(residual(drawn, drawn.graph.input(0, shape)), samples)
    host = Kernels(nodes, 2)
    before = host(samples[0])[0]
    broken = samples[0][0].clone()
    broken[0, 3, 5, 5] = bad
    torch.testing.assert_close(host([broken])[0], evaluated(nodes, [broken])[0], equal_nan=True)
    assert torch.equal(host(samples[0])[0], before), "what was odd once is odd for ever"


@pytest.mark.parametrize("groups", [1, 32])
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_floats_that_are_added_to_sums_of_bytes_are_looked_at(bad: float, groups: int) -> None:
    shapes = ((1, 32, 9, 9), (1, 32, 9, 9))
    drawn = Drawn()
    x, y = (drawn.graph.input(number, shape) for number, shape in enumerate(shapes))
    added = drawn.relu(drawn.add(drawn.conv(x, 32, (3, 3), groups=groups), y))
    samples = [[*one, *other] for one, other in zip(pictures(shapes[0]), pictures(shapes[1], 6)[3:], strict=True)]
    nodes = in_8_bits(drawn.conv(added, 20, (1, 1)), samples)
    host = Kernels(nodes, 2)
    assert_near(host(samples[0])[0], evaluated(nodes, samples[0])[0])
    broken = [samples[0][0], samples[0][1].clone()]
    broken[1][0, 7, 3, 3] = bad
    torch.testing.assert_close(host(broken)[0], evaluated(nodes, broken)[0], equal_nan=True)


def test_what_is_beyond_the_range_becomes_its_end() -> None:
    shape = (1, 16, 12, 12)
    drawn, samples = Drawn(), pictures(shape)
    nodes = in_8_bits(residual(drawn, drawn.graph.input(0, shape)), samples)
    for factor in (1e3, 1e12, 1e30):
        large = [samples[0][0] * factor]
        assert_near(Kernels(nodes, 1)(large)[0], evaluated(nodes, large)[0])


def test_the_kernels_are_offered_where_the_processor_multiplies_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        def __init__(self, there: int) -> None:
            self.multiplies_bytes = lambda: there

    monkeypatch.setattr(int8_replay, "library", lambda: Library(1))
    assert int8_replay.eight_bit_hosts(None)[0] == int8_replay.eight_bit_hosts("kernels")[0] == "kernels"
    assert "kernels" not in int8_replay.eight_bit_hosts("openvino")
    monkeypatch.setattr(int8_replay, "library", lambda: Library(0))
    assert "kernels" not in int8_replay.eight_bit_hosts(None)


def test_the_layers_that_were_found_run_on_the_quickest_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it keeps the guard: the search's own engine is there otherwise."""
    drawn, shape = Drawn(), (1, 16, 12, 12)
    node = residual(drawn, drawn.graph.input(0, shape))
    samples = pictures(shape, 4)

    def compiled(nodes: Sequence[Node]) -> Watched:
        graph = WatchedGraph.of(nodes)
        return Watched(Kernels(graph.all, 1), graph)

    for right, expected in ((True, "another"), (False, "kernels")):
        search = Search([node], samples, Kernels([node], 1), compiled, 0.95, Int8Rounding)
        found, host = search.run()
        assert isinstance(host, Watched)
        better = Kernels(host.graph.all, 1)
        other = better if right else lambda inputs: [torch.randn(one.shape) for one in better(inputs)]  # noqa: B023
        monkeypatch.setattr(int8_replay, "quickest", lambda *_, other=other: ("another", other))
        told, name, chosen = int8_replay._on_the_quickest(search, found, host, ("kernels", "another"))
        assert name == expected and (chosen is host) == (not right)
        assert told.pcc == pytest.approx(found.pcc, abs=1e-4)


# --- depthwise convolutions in float ---------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [16, 20, 64])
@pytest.mark.parametrize(
    ("kernel", "stride"), [(3, 1), (3, 2), (5, 1), (5, 2), (7, 1), (3, 3), (4, 1), (17, 1), (31, 1)]
)
def test_depthwise_in_float(kernel: int, stride: int, channels: int) -> None:
    drawn, shape = Drawn(), (2, channels, 19, 34)
    node = drawn.relu(drawn.depthwise(drawn.graph.input(0, shape), kernel, stride))
    (sample,) = pictures(shape, 1)
    assert differs(Kernels([node], 2)(sample)[0], evaluated([node], sample)[0]) < EXACT


def test_a_kernel_that_is_too_high_for_a_step_is_left_to_torch() -> None:
    drawn, shape = Drawn(), (1, 16, 300, 3)
    node = drawn.conv(drawn.graph.input(0, shape), 16, (299, 1), groups=16)
    assert not is_step(node)
    (sample,) = pictures(shape, 1)
    assert differs(Kernels([node], 1)(sample)[0], evaluated([node], sample)[0]) < EXACT


def test_the_largest_of_each_channel_keeps_nan() -> None:
    shape = (2, 24, 5, 7)
    graph = Graph()
    node = graph.reduce("amax", graph.unary("Relu", graph.input(0, shape)), (2, 3), True)
    (sample,) = pictures(shape, 1)
    sample[0][1, 20, 4, 6] = float("nan")
    torch.testing.assert_close(Kernels([node], 2)(sample)[0], evaluated([node], sample)[0], equal_nan=True)
