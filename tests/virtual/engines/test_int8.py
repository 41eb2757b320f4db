# SPDX-License-Identifier: Apache-2.0
"""Guarded 8-bit replays: near enough to float32, told layer by layer, and never assumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay import hosts
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.eight_bit.calibration import Calibration
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit, Search
from tt_cnn.virtual.engines.replay.eight_bit.loss import Loss
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.graph import Node, ordered
from tt_cnn.virtual.engines.replay.int8 import replay as int8_replay
from tt_cnn.virtual.engines.replay.int8.rewrite import Int8Rounding
from tt_cnn.virtual.engines.replay.int8.steps import steps_for
from tt_cnn.virtual.engines.replay.onnx_model import OnnxModel, check

SIDE, CHANNELS = 16, 8


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))


class Network:
    """Convolutions with activations, a residual add, a concatenation, a pool, an upsampling and a linear layer."""

    def __init__(self) -> None:
        random = torch.Generator().manual_seed(0)

        def weights(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=random) / (shape[1] * 9) ** 0.5

        self.weights = [weights(CHANNELS, CHANNELS, 3, 3) for _ in range(3)] + [weights(CHANNELS, 2 * CHANNELS, 3, 3)]
        self.up = weights(CHANNELS, CHANNELS, 2, 2)
        self.last = weights(CHANNELS * SIDE * SIDE, 10)
        self.bias = torch.randn(CHANNELS, generator=random)

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        a = F.mish(F.conv2d(x, self.weights[0], self.bias, padding=1))
        b = F.relu(F.conv2d(a, self.weights[1], padding=1) + a)
        half = F.leaky_relu(F.conv2d(F.max_pool2d(b, 2), self.weights[2], self.bias, padding=1), 0.1)
        joined = torch.cat((F.conv_transpose2d(half, self.up, stride=2), b), 1)
        c = F.relu(F.conv2d(joined, self.weights[3], padding=1))
        return [c.reshape(1, -1) @ self.last]


def pictures(count: int) -> list[list[torch.Tensor]]:
    random = torch.Generator().manual_seed(1)
    return [[torch.randn(1, CHANNELS, SIDE, SIDE, generator=random)] for _ in range(count)]


def graph(network: Callable[..., list[torch.Tensor]]) -> list[Node]:
    return graph_of(network, pictures(1)[0])


def searched(network: Callable[..., list[torch.Tensor]], guard: float = 0.99, engine: str = "openvino") -> Any:
    nodes = graph(network)
    compiled = hosts.HOSTS[engine]
    return Search(nodes, pictures(4), compiled(nodes, 1), lambda chosen: compiled(chosen, 1), guard, Int8Rounding).run()


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1])


@pytest.mark.parametrize("engine", ["openvino", "onnxruntime"])
def test_a_network_in_8_bits_is_near_torch(engine: str) -> None:
    network = Network()
    found, host = searched(network, engine=engine)
    assert found.layers == 6 and not found.kept and not found.refused
    assert 0.99 <= found.pcc < 0.99999  # it is rounded, or this would be float32
    for picture in pictures(6)[4:]:
        assert pcc(host(picture)[0], network(*picture)[0]) > 0.99


def test_values_are_rounded_once_for_all_who_take_them() -> None:
    nodes = graph(Network())
    rounding = Int8Rounding(nodes, pictures(2))
    eight = rounding.quantized(nodes, rounding.layers)
    check(OnnxModel(eight))
    order = ordered(eight)
    roundings = [node for node in order if node.kind == "quantize"]
    assert len(roundings) == 6  # input, a, b, half, the upsampled, c; the pool and the concatenation hand theirs on
    (joined,) = [node for node in order if node.kind == "cat"]
    scales = {id(part.inputs[1]) for part in joined.inputs}
    assert all(part.kind == "dequantize" for part in joined.inputs) and len(scales) == 1
    (pool,) = [node for node in order if node.kind == "max_pool"]
    assert pool.source in joined.inputs


def test_torch_and_engines_round_alike() -> None:
    nodes = graph(Network())
    rounding = Int8Rounding(nodes, pictures(2))
    eight = rounding.quantized(nodes, rounding.layers)
    picture = pictures(3)[2]
    (value,) = evaluated(eight, picture)
    for engine in ("openvino", "onnxruntime"):
        assert pcc(hosts.HOSTS[engine](eight, 1)(picture)[0], value) > 0.999


def test_a_graph_without_chosen_layers_is_the_same_graph() -> None:
    nodes = graph(Network())
    assert Int8Rounding(nodes, []).quantized(nodes, []) == nodes


class Planted(Network):
    """The second of three takes a channel so large that the others vanish in its steps; a weight undoes it."""

    def __call__(self, x: torch.Tensor) -> list[torch.Tensor]:
        large = torch.ones(CHANNELS)
        large[0] = 3e4
        a = F.relu(F.conv2d(x, self.weights[0] * large.view(-1, 1, 1, 1), self.bias, padding=1))
        b = F.relu(F.conv2d(a, self.weights[1] / large.view(1, -1, 1, 1), self.bias, padding=1))
        return [F.conv2d(b, self.weights[2], padding=1)]


def test_a_layer_that_cannot_be_rounded_stays_in_float_and_is_told() -> None:
    network = Planted()
    found, host = searched(network)
    assert found.layers == 3 and not found.refused and found.pcc > 0.99
    (kept,) = found.kept
    assert kept.startswith("layer 2, convolution with 8x8x3x3 weights") and "of PCC" in kept
    (picture,) = pictures(5)[4:]
    assert pcc(host(picture)[0], network(*picture)[0]) > 0.99


def test_layers_in_float_are_remembered_and_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Planted()
    first, _ = searched(network)
    with monkeypatch.context() as patch:
        patch.setattr(Search, "_losses", lambda *_: pytest.fail("the losses were known"))
        assert searched(network)[0] == first
    network.weights[2] = -network.weights[2] * 3
    again, _ = searched(network)  # other weights: nothing is known of them
    assert again.kept and again != first


def test_a_guard_near_1_leaves_everything_in_float() -> None:
    found, host = searched(Network(), guard=1 - 1e-9)
    assert host is None and "guard of 1" in found.refused and "float32" in str(found)


def test_what_never_changes_does_not_flatter() -> None:
    """Tiles are padded with rows of the bias: they correlate perfectly, whatever the values do."""
    torch.manual_seed(0)
    rows = [torch.cat((torch.randn(1, 8), torch.linspace(-50, 50, 8).expand(31, 8))) for _ in range(3)]
    wrong = rows[0].clone()
    wrong[0] = -wrong[0]
    assert pcc(wrong, rows[0]) > 0.99
    assert Loss([[row] for row in rows])([wrong], [rows[0]]) > 1.5


def test_what_is_no_number_in_float_does_not_count() -> None:
    rows = [torch.tensor([1.0, 2.0, 4.0, float("nan")]) * scale for scale in (1.0, 2.0)]
    assert Loss([[row] for row in rows])([rows[0]], [rows[0]]) < 1e-9
    wrong = torch.tensor([1.0, 2.0, float("nan"), float("nan")])
    assert Loss([[row] for row in rows])([wrong], [rows[0]]) == 1.0


def test_steps_leave_room_for_inputs_that_reach_further() -> None:
    values = torch.linspace(0, 1, 64)
    node = Node("input", (), (0,), tuple(values.shape))
    scale, zero = steps_for(list(Calibration([node], [[values]], [node]).observations.values()))
    assert 1.3 < scale * 255 <= 1.5 and zero == 0


def test_steps_cut_off_what_is_rare() -> None:
    values = torch.linspace(-1, 1, 1 << 16)
    values[7] = 1.15
    node = Node("input", (), (0,), tuple(values.shape))
    scale, zero = steps_for(list(Calibration([node], [[values]], [node]).observations.values()))
    assert 2.0 < scale * 255 < 3.0 and 0 < zero < 255  # all of it, and half as much again, would be 3.2


# --- replays ---------------------------------------------------------------------------------------------------------


class Program:
    """Two convolutions on the card, traced; `sorts` puts what no engine has between them."""

    def __init__(self, device: Any, *, sorts: bool = False) -> None:
        torch.manual_seed(0)
        self.device, self.sorts = device, sorts
        self.weight = torch.randn(CHANNELS, CHANNELS, 3, 3) / 8
        self.weights = [ttnn.from_torch(self.weight), ttnn.from_torch(self.weight)]
        self.input = self.place(torch.zeros(1, CHANNELS, SIDE, SIDE))
        self.compute()
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = self.compute()
        ttnn.end_trace_capture(device, self.trace, cq_id=0)

    def place(self, image: torch.Tensor) -> Any:
        return ttnn.from_torch(flat(image), layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device)

    def conv(self, x: Any, number: int) -> Any:
        y, (self.weights[number], _) = ttnn.conv2d(
            input_tensor=x, weight_tensor=self.weights[number], device=self.device, in_channels=CHANNELS,
            out_channels=CHANNELS, batch_size=1, input_height=SIDE, input_width=SIDE, kernel_size=(3, 3),
            padding=(1, 1), return_weights_and_bias=True,
        )  # fmt: skip
        return ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)

    def compute(self) -> Any:
        y = ttnn.relu(self.conv(self.input, 0))
        if self.sorts:
            y, _ = ttnn.sort(y, dim=-1)
        return self.conv(ttnn.to_layout(y, ttnn.ROW_MAJOR_LAYOUT), 1)

    def expected(self, image: torch.Tensor) -> torch.Tensor:
        y = F.relu(F.conv2d(image, self.weight, padding=1))
        if self.sorts:
            y = y.sort(dim=1)[0]
        return flat(F.conv2d(y, self.weight, padding=1))

    def replay(self, image: torch.Tensor) -> torch.Tensor:
        host = ttnn.from_torch(flat(image), layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.copy_host_to_device_tensor(host, self.input)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=True)
        return ttnn.to_torch(self.output)

    @property
    def parts(self) -> Any:
        return self.device.traces[int(self.trace)].replay.parts


def flat(image: torch.Tensor) -> torch.Tensor:
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Small programs are not quicker in 8 bits: here they are taken to be."""
    monkeypatch.setattr(int8_replay, "quicker", lambda *_: (1.0, 2.0))
    device = ttnn.open_device(
        device_id=0, l1_small_size=16384, numerics="native", engine="openvino", precision="int8", samples=3
    )
    yield device
    ttnn.close_device(device)


def test_the_first_different_inputs_run_in_float(device: Any) -> None:
    program = Program(device)
    images = [picture[0] for picture in pictures(5)]
    for image in (images[0], images[0], images[1], images[2]):
        assert all(part.eight_bit is None for part in program.parts)
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)
    (part,) = program.parts
    assert isinstance(part.eight_bit, EightBit) and part.eight_bit.layers == 2 and not part.eight_bit.kept
    for image in images[3:]:
        found, expected = program.replay(image), program.expected(image)
        assert 0.99 < pcc(found, expected) < 0.99999
        assert torch.equal(found, program.replay(image))


def test_parts_share_what_the_guard_allows(device: Any) -> None:
    program = Program(device, sorts=True)
    for (image,) in pictures(4):
        found, expected = program.replay(image), program.expected(image)
    assert pcc(found, expected) > 0.99
    assert [part.engine for part in program.parts] == ["openvino", "torch", "openvino"]
    assert [part.eight_bit.guard for part in program.parts if part.eight_bit] == [0.995, 0.995]


def test_all_parts_together_are_checked(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(device)
    monkeypatch.setattr(int8_replay.Int8Replay, "_whole_pcc", lambda *_: 0.5)
    for (image,) in pictures(4):
        found = program.replay(image)
    torch.testing.assert_close(found, program.expected(image), rtol=1e-4, atol=1e-4)
    assert "0.5" in program.parts[0].eight_bit.refused


def test_where_float_is_quicker_it_stays(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_replay, "quicker", lambda *_: (2.0, 1.0))
    program = Program(device)
    for (image,) in pictures(4):
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)
    assert "2000.0 ms" in program.parts[0].eight_bit.refused


def test_an_engine_that_fails_leaves_float(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(int8_replay.WatchedGraph, "of", fails)
    program = Program(device)
    for (image,) in pictures(4):
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)
    assert "no such kernel" in program.parts[0].eight_bit.refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"numerics": "device"}, "numerics='device'; use it with numerics='native'"),
        ({"numerics": "native", "engine": "torch"}, "engine='cpu'"),
        ({"numerics": "native", "precision": "int4"}, "float32, int8, fp8"),
        ({"numerics": "native", "guard": 1.5}, "from 0 to 1"),
        ({"numerics": "native", "samples": 1}, "one to calibrate on"),
        ({"numerics": "native", "precision": "float32", "guard": 0.9}, "precision='int8'"),
    ],
)
def test_what_does_not_go_together_is_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ttnn.open_device(device_id=0, **{"precision": "int8", **options})


@pytest.mark.parametrize("engine", ["cpu", "kernels", "openvino"])
def test_without_engines_it_says_what_to_install(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_replay, "installed", lambda: ())
    monkeypatch.setattr("tt_cnn.virtual.engines.compiling.installed", lambda: ("kernels", "openvino"))
    with pytest.raises(RuntimeError, match=rf"engine='{engine}'.*pip install 'tt-cnn\[cpu\]'"):
        ttnn.open_device(device_id=0, numerics="native", precision="int8", engine=engine)
