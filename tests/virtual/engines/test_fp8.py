# SPDX-License-Identifier: Apache-2.0
"""Convolutions of e4m3 numbers: the launches for the GPU, run by torch on the CPU, and the guard over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tt_cnn.testing.pcc import comp_pcc
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.cuda import CudaEngine
from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Convolution, Copy, KernelCall, Window
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.fp8.choice import in_fp8
from tt_cnn.virtual.engines.replay.fp8.e4m3 import E4M3, in_units, rounded_weights, scale_for
from tt_cnn.virtual.engines.replay.fp8.rewrite import Fp8Rounding
from tt_cnn.virtual.engines.replay.graph import Node, ordered

Model = Callable[[torch.Tensor], list[torch.Tensor]]
SIDE = 12


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))


class Net(nn.Module):
    """A residual, a pool, an upsampling, a transposed convolution, a concatenation and a head of one channel."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem, self.first, self.second = nn.Conv2d(3, 32, 3, 1, 1), nn.Conv2d(32, 32, 3, 1, 1), nn.Conv2d(32, 32, 1)
        self.down, self.up = nn.Conv2d(32, 64, 3, 1, 1), nn.ConvTranspose2d(64, 32, 2, 2)
        self.join, self.head = nn.Conv2d(128, 32, 3, 1, 1), nn.Conv2d(32, 1, 1)

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        stem = F.relu(self.stem(x))
        a = F.mish(self.second(F.relu(self.first(stem)))) + stem
        half = F.relu(self.down(F.max_pool2d(a, 2)))
        joined = torch.cat((F.interpolate(half, scale_factor=2), self.up(half), a), 1)
        return [torch.sigmoid(self.head(F.relu(self.join(joined)))), joined.mean((2, 3))]


def pictures(count: int) -> list[list[torch.Tensor]]:
    random = torch.Generator().manual_seed(1)
    return [[torch.randn(2, 3, SIDE, SIDE, generator=random)] for _ in range(count)]


def in_eight_bits(net: Model, picture: Sequence[torch.Tensor]) -> tuple[list[Node], list[Node]]:
    """The graph, and the same with all its layers in 8 bits."""
    nodes = graph_of(net, list(picture))
    rounding = Fp8Rounding(nodes, [picture])
    return nodes, rounding.quantized(nodes, rounding.layers)


def run(launches: Launches, picture: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        launches.inputs[0].copy_(picture[0])
        launches.run()
    return [y.clone() for y in launches.outputs()]


def convolutions(launches: Launches) -> list[Convolution]:
    return [step for step in launches.calls if isinstance(step, Convolution)]


# --- numbers -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [1e-3, 0.4, 1.0, 448.0, 449.0, 3e4])
def test_a_scale_maps_the_largest_near_448(largest: float) -> None:
    assert 224.0 < largest / scale_for(largest) <= 448.0


def test_numbers_are_torch_s_and_never_infinite() -> None:
    values = torch.randn(1000) * 300
    assert torch.equal(in_units(values, 1.0).float(), values.clamp(-448, 448).to(E4M3).float())
    assert torch.equal(in_units(torch.tensor([1e9, -1e9, 0.0]), 2.0).float(), torch.tensor([448.0, -448.0, 0.0]))


def test_rounded_weights_have_a_scale_for_each_channel_and_keep_their_values() -> None:
    weight = torch.randn(4, 32, 3, 3) * torch.tensor([1e-4, 1.0, 0.0, 1e3])[:, None, None, None]
    rounded = weight
    for _ in range(2):
        numbers, scales = rounded_weights(rounded, 0)
        again = numbers.float() * scales[:, None, None, None]
        assert rounded is weight or torch.equal(again, rounded)
        rounded = again
    steps = weight.abs() / 16 + scales[:, None, None, None] / 512
    assert scales[2] == 1.0 and bool(((rounded - weight).abs() <= steps).all())


# --- the launches -------------------------------------------------------------------------------------------------


def test_a_convolution_is_that_of_torch_s_own_casts() -> None:
    """Sums in float32 of products of e4m3 numbers, the scales after them, then the bias and the activation."""
    layer, x = nn.Conv2d(32, 48, 3, 1, 1).requires_grad_(False), torch.randn(2, 32, 6, 8)
    _, eight = in_eight_bits(lambda v: [F.relu(layer(torch.tanh(v)))], [x])
    launches = Launches(eight, "cpu", torch.float16)
    (found,) = run(launches, [x])
    (step,) = convolutions(launches)
    assert step.x.dtype == step.weight.dtype == E4M3
    source = torch.tanh(x)
    scale = scale_for(float(source.abs().max()))
    scales = torch.tensor([scale_for(float(one)) for one in layer.weight.abs().amax((1, 2, 3))])[:, None, None]
    a, b = (source / scale).to(E4M3).float(), (layer.weight / scales[..., None]).to(E4M3).float()
    (conv,) = [node for node in ordered(eight) if node.kind == "conv"]
    bias = conv.inputs[2].value  # it takes back by how much rounded weights move a channel's mean
    assert bias is not None and 0 < (bias - layer.bias).abs().max() < 0.05
    expected = F.relu(F.conv2d(a, b, None, 1, 1) * (scales * scale) + bias[:, None, None])
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_network_in_8_bits_is_near_torch_and_as_its_graph_says() -> None:
    net, (picture,) = Net().eval(), pictures(1)
    _, eight = in_eight_bits(net, picture)
    launches = Launches(eight, "cpu", torch.float16)
    found = run(launches, picture)
    assert all(torch.equal(a, b) for a, b in zip(found, run(launches, picture), strict=True))
    with torch.no_grad():
        for value, told, expected in zip(found, evaluated(eight, picture), net(*picture), strict=True):
            assert 0.99 < comp_pcc(expected, value)[1] < 0.99999
            assert comp_pcc(told, value)[1] > 0.9995  # the first layer has 16 bits here


def test_images_are_stored_for_those_who_read_them() -> None:
    """In 8 bits where only such convolutions read them, in both where others do too, and in place in concatenations."""
    net, (picture,) = Net().eval(), pictures(1)
    _, eight = in_eight_bits(net, picture)
    launches = Launches(eight, "cpu", torch.float16)
    stem, first, second, down, up, join = convolutions(launches)
    assert [step.in_eight_bits for step in (stem, first, second, down, up, join)] == [False, *[True] * 5]
    assert stem.y.dtype == torch.float16 and stem.eight is not None  # the residual takes 16 bits
    assert first.y.dtype == E4M3 and first.eight is None and down.eight is not None
    (pool,) = [step for step in launches.calls if isinstance(step, Window)]
    assert pool.x.dtype == pool.y.dtype == E4M3 and pool.scale == 1.0
    assert join.x.dtype == E4M3 and join.tail is not None
    assert up.eight is not None and up.eight.stride() == join.x.stride()  # the mean takes 16 bits
    repeats = [step for step in launches.calls if isinstance(step, Copy) and step.y.dtype == E4M3]
    assert repeats and repeats[0].y.data_ptr() == join.x.data_ptr()


def test_a_concatenation_with_a_constant_is_rounded_as_a_whole() -> None:
    first, second, place = nn.Conv2d(32, 32, 1), nn.Conv2d(64, 32, 3, 1, 1), torch.randn(1, 32, 6, 6)

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        return [second(torch.cat((F.relu(first(x)), place), 1))]

    x = torch.randn(1, 32, 6, 6)
    _, eight = in_eight_bits(model, [x])
    (found,) = run(Launches(eight, "cpu", torch.float16), [x])
    assert [node.kind for node in ordered(eight)].count("e4m3") == 2
    assert comp_pcc(model(x)[0].detach(), found)[1] > 0.998


def test_what_no_step_makes_is_rounded_by_one_of_its_own() -> None:
    layer, x = nn.Conv2d(32, 32, 3, 1, 1), torch.randn(1, 32, 6, 6)
    _, eight = in_eight_bits(lambda v: [layer(v.permute(0, 1, 3, 2) * 0.5)], [x])
    launches = Launches(eight, "cpu", torch.float16)
    (found,) = run(launches, [x])
    rounding = next(step for step in launches.calls if isinstance(step, KernelCall))
    assert isinstance(rounding, Copy) and rounding.y.dtype == E4M3
    assert comp_pcc(layer(x.permute(0, 1, 3, 2) * 0.5).detach(), found)[1] > 0.998


def test_no_result_overwrites_what_is_added_to_it() -> None:
    """On the GPU some of a result is written while the rest is still computed."""
    wide, back, same, on = (
        nn.Conv2d(64, 128, 1),
        nn.Conv2d(128, 64, 1),
        nn.Conv2d(64, 64, 3, 1, 1),
        nn.Conv2d(64, 96, 1),
    )

    def model(x: torch.Tensor) -> list[torch.Tensor]:
        a = F.leaky_relu(back(F.relu(wide(torch.tanh(x)))), 0.1)
        b = F.relu(same(a) + a)
        return [on(b), b * 2]

    for nodes in in_eight_bits(model, [torch.randn(1, 64, 8, 8)]):
        launches = Launches(nodes, "cpu", torch.float16)
        (step,) = [step for step in convolutions(launches) if step.other is not None]
        assert step.other is not None
        for y in (one for one in (step.y, step.eight) if one is not None):
            assert y.dtype == step.other.dtype or not places(step.other) & places(y)


def places(image: torch.Tensor) -> set[int]:
    """Bytes of an image that lies in one piece."""
    return set(range(image.data_ptr(), image.data_ptr() + image.nbytes))


def test_only_convolutions_take_e4m3() -> None:
    x = Node("input", (), (0,), (1, 32, 4, 4))
    rounded = Node("e4m3", (x,), (1.0,), x.shape)
    with pytest.raises(ValueError, match="only convolutions"):
        Launches([Node("unary", (rounded,), ("Relu",), x.shape)])


@pytest.mark.parametrize("neighbours", [1, 2])
def test_the_kernel_s_matrix_holds_columns_one_after_the_other(neighbours: int) -> None:
    layer, x = nn.Conv2d(32, 32, 3, 1, 1), torch.randn(1, 32, 4, 4)
    plain, wide = (Launches(nodes, "cpu", torch.float16) for nodes in in_eight_bits(lambda v: [layer(v)], [x]))
    (step,), (old,) = convolutions(wide), convolutions(plain)
    matrix = step.matrix(neighbours)
    assert matrix.dtype == E4M3 and matrix.stride(0) == 1 and matrix.shape == old.matrix(neighbours).shape
    assert comp_pcc(old.matrix(neighbours).float(), matrix.float())[1] > 0.99


@pytest.mark.parametrize(
    ("layer", "shape", "can"),
    [
        (nn.Conv2d(64, 16, 3), (1, 64, 8, 8), True),
        (nn.ConvTranspose2d(32, 16, 2, 2), (1, 32, 8, 8), True),
        (nn.Conv2d(3, 32, 3), (1, 3, 8, 8), False),
        (nn.Conv2d(48, 32, 3), (1, 48, 8, 8), False),
        (nn.Conv2d(32, 32, 3, groups=32), (1, 32, 8, 8), False),
        (nn.Conv2d(32, 8, 3), (1, 32, 8, 8), False),
        (nn.ConvTranspose2d(32, 16, 3, 2), (1, 32, 8, 8), False),  # its windows overlap
        (nn.Linear(64, 64), (4, 64), False),
    ],
)
def test_which_layers_have_a_kernel(layer: nn.Module, shape: tuple[int, ...], can: bool) -> None:
    nodes = graph_of(lambda v: [layer(v)], [torch.zeros(shape)])
    assert bool(Fp8Rounding(nodes, []).layers) is can


# --- the guard ---------------------------------------------------------------------------------------------------


class OnCpu:
    """The launches by torch, with microseconds that a test makes up: 8 bits take half."""

    dtype = torch.float16

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.launches = Launches(nodes, "cpu", self.dtype)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return run(self.launches, inputs)

    def seconds_of_convolutions(self) -> dict[int, float]:
        return {id(step.node.inputs[1].value): self.time(step) * 1e-6 for step in convolutions(self.launches)}

    def time(self, step: Convolution) -> int:
        return 5 if step.in_eight_bits else 10

    def seconds(self) -> float:
        return sum(self.time(step) for step in convolutions(self.launches)) * 1e-6


def chosen(net: Model, guard: float = 0.99, **options: Any) -> tuple[EightBit, OnCpu | None]:
    kind = type("OnThisCpu", (OnCpu,), options)
    nodes = graph_of(net, pictures(1)[0])
    with torch.no_grad():
        return in_fp8(nodes, pictures(4), kind(nodes), kind, guard)


def test_as_many_layers_as_the_guard_allows() -> None:
    net = Net().eval()
    found, host = chosen(net)
    assert found.layers == 5 and not found.kept and 0.99 < found.pcc < 0.99999 and host is not None
    assert "5 of 5 layers in 8 bits" in str(found)
    (picture,) = pictures(6)[5:]
    with torch.no_grad():
        assert min(comp_pcc(a, b)[1] for a, b in zip(net(*picture), host(picture), strict=True)) > 0.99


class Planted(Net):
    """The second convolution takes a channel so large that the others vanish beside it; a weight undoes it."""

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        large = torch.ones(32)
        large[0] = 3e7
        a = F.relu(F.conv2d(F.relu(self.stem(x)), self.first.weight * large.view(-1, 1, 1, 1), padding=1))
        b = F.relu(F.conv2d(a, self.second.weight / large.view(1, -1, 1, 1), self.second.bias))
        return [self.down(b)]


def test_a_layer_that_loses_too_much_stays_in_16_bits_and_is_told() -> None:
    nodes = graph_of(Planted().eval(), pictures(1)[0])
    found, _ = chosen(Planted().eval(), dtype=torch.bfloat16)  # its values are beyond float16
    assert len(Fp8Rounding(nodes, []).layers) == found.layers == 3 and not found.refused and found.pcc > 0.99
    (kept,) = found.kept
    assert kept.startswith("layer 2, convolution with 32x32x1x1 weights") and "of PCC" in kept


def test_the_layers_that_save_most_for_what_they_lose_are_in_8_bits() -> None:
    first, _ = chosen(Net().eval(), 0.9995)
    held = [one.split(":")[0] for one in first.kept]
    assert held and not first.refused

    def time(self: OnCpu, step: Convolution) -> int:
        """Those that were left before now save nearly everything, the others next to nothing."""
        again = any("x".join(map(str, step.weight.shape)) in one for one in held)
        return 1000 - step.in_eight_bits * (990 if again else 1)

    second, _ = chosen(Net().eval(), 0.9995, time=time)
    assert held != [one.split(":")[0] for one in second.kept]


@pytest.mark.parametrize(
    ("guard", "options", "told"),
    [
        (1 - 1e-9, {}, "guard of 1"),
        (0.99, {"time": lambda self, step: 1000 * (1 + step.in_eight_bits)}, "8 bits take 11.000 ms, 16 bits 6.000"),
    ],
)
def test_where_16_bits_stay_it_says_why(guard: float, options: dict[str, Any], told: str) -> None:
    found, host = chosen(Net().eval(), guard, **options)
    assert host is None and told in found.refused and str(found).startswith("all in 16 bits: ")


def test_what_the_gpu_itself_loses_counts() -> None:
    def noisy(self: OnCpu, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        return [
            y + torch.randn(y.shape, generator=torch.Generator().manual_seed(0)) for y in run(self.launches, inputs)
        ]

    found, host = chosen(Net().eval(), __call__=noisy)
    assert host is None and "on the GPU PCC is" in found.refused


# --- asking for it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"engine": "cpu"},
            "precision='fp8' was asked for with engine='cpu'; use it with numerics='native' and engine",
        ),
        ({"engine": "openvino"}, "engine='openvino'; .* on the CPU it is precision='int8'"),
        ({"engine": "torch"}, "precision='fp8' is for compiled traces"),
        ({"guard": 2.0}, "from 0 to 1"),
    ],
)
def test_engines_without_it_say_which_has_it(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ttnn.open_device(device_id=0, **{"numerics": "native", "precision": "fp8", **options})


def engine_on(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], numerics: str = "native") -> CudaEngine:
    """As it would be on a GPU of that capability."""
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda *_: "a GPU")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)
    engine = object.__new__(CudaEngine)
    engine.numerics, engine.device, engine.precision = numerics, torch.device("cuda"), None
    return engine


def test_a_gpu_that_has_it_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, wanted = engine_on(monkeypatch, (9, 0)), EightBits("fp8")
    engine.allow(wanted)
    assert engine.precision is wanted


@pytest.mark.parametrize(
    ("name", "capability", "numerics", "error", "message"),
    [
        ("fp8", (8, 0), "native", RuntimeError, "8.9 or more; a GPU has 8.0; leave precision out"),
        ("fp8", (9, 0), "device", ValueError, "numerics='device'; use it with numerics='native'"),
        ("int8", (9, 0), "native", ValueError, "engine='cuda'; .*on a GPU it is precision='fp8'"),
    ],
)
def test_a_gpu_that_cannot_says_why(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    capability: tuple[int, int],
    numerics: str,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        engine_on(monkeypatch, capability, numerics).allow(EightBits(name))


def test_without_triton_it_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_on(monkeypatch, (9, 0))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="needs Triton"):
        engine.allow(EightBits("fp8"))
