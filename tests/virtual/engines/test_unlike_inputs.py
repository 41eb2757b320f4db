# SPDX-License-Identifier: Apache-2.0
"""8 bits are fitted to samples: inputs unlike those run in float, are counted and told, and none is computed wrong."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.compiling import CompilingEngine
from tt_cnn.virtual.engines.precision import EightBits
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Convolution
from tt_cnn.virtual.engines.replay.cuda.launches import Launches
from tt_cnn.virtual.engines.replay.eight_bit.beside import LearningBeside
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit
from tt_cnn.virtual.engines.replay.eight_bit.inputs import NAMES, InputRange, statistics
from tt_cnn.virtual.engines.replay.eight_bit.witnesses import Ball, Watched, WatchedGraph, Witness, witnesses_of
from tt_cnn.virtual.engines.replay.evaluate import evaluated
from tt_cnn.virtual.engines.replay.fp8.choice import in_fp8
from tt_cnn.virtual.engines.replay.fp8.rewrite import Fp8Rounding
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.int8 import replay as int8_replay
from tt_cnn.virtual.engines.replay.replay import OnHost, Part

SIDE, CHANNELS, SAMPLES, GUARD = 32, 8, 4, 0.99
inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))


def picture(seed: int, channels: int = CHANNELS) -> torch.Tensor:
    """Smooth with some noise, as pictures are."""
    random = torch.Generator().manual_seed(seed)
    coarse = torch.randn(1, channels, 6, 6, generator=random)
    smooth = F.interpolate(coarse, size=(SIDE, SIDE), mode="bilinear", align_corners=False)
    return smooth + 0.1 * torch.randn(1, channels, SIDE, SIDE, generator=random) + 0.3


def with_values(x: torch.Tensor, value: float) -> torch.Tensor:
    x = x.clone()
    x[0, 3, 5:7, 9] = value
    return x


def with_patch(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[:, :, 4:16, 6:22] = values[:, :, 4:16, 6:22]
    return x


def shuffled(x: torch.Tensor) -> torch.Tensor:
    order = torch.randperm(SIDE * SIDE, generator=torch.Generator().manual_seed(0))
    return x.flatten(2)[:, :, order].reshape(x.shape)


def noise(x: torch.Tensor) -> torch.Tensor:
    return torch.randn(x.shape, generator=torch.Generator().manual_seed(0)) * x.std() + x.mean()


def stripes(x: torch.Tensor) -> torch.Tensor:
    odd = torch.arange(SIDE).view(-1, 1) // 4 % 2 == 1
    return torch.where(odd, x.max(), x.min()).expand(x.shape).contiguous()


Change = Callable[[torch.Tensor], torch.Tensor]
UNLIKE: dict[str, Change] = {
    "scaled by 0.1": lambda x: 0.1 * x,
    "scaled by 10": lambda x: 10 * x,
    "shifted by 3": lambda x: x + 3 * x.std(),
    "shifted by -3": lambda x: x - 3 * x.std(),
    "zeros": torch.zeros_like,
    "its mean": lambda x: torch.full_like(x, float(x.mean())),
    "its largest value": lambda x: torch.full_like(x, float(x.max())),
    "sparse": lambda x: x * (torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) > 0.95),
    "noise": noise,
    "shuffled": shuffled,
    "stripes": stripes,
    "a patch of noise": lambda x: with_patch(x, noise(x)),
    "nan": lambda x: with_values(x, nan),
    "inf": lambda x: with_values(x, inf),
    "-inf": lambda x: with_values(x, -inf),
    "one large value": lambda x: with_values(x, 1e4),
}
OTHERS: dict[str, Change] = {
    "shifted by 1": lambda x: x + x.std(),
    "shifted by -1": lambda x: x - x.std(),
    "upside down": lambda x: x.flip(2),
    "a patch of its least value": lambda x: with_patch(x, torch.full_like(x, float(x.min()))),
    "negative": torch.neg,
    "half": lambda x: 0.5 * x,
    "blurred": lambda x: F.avg_pool2d(x, 5, 1, 2, count_include_pad=False),
}
"""Less unlike: float or 8 bits, as long as the guard holds."""


class Program:
    """Convolutions on the card, traced. `sorts` cuts the trace in two, `adds_up` carries a total from replay to replay,
    `whole` takes whole numbers."""

    def __init__(
        self,
        device: Any,
        *,
        depth: int = 4,
        channels: int = CHANNELS,
        sorts: bool = False,
        adds_up: bool = False,
        whole: bool = False,
    ) -> None:
        torch.manual_seed(0)
        self.device, self.channels, self.sorts, self.adds_up, self.whole = device, channels, sorts, adds_up, whole
        scale = (2 / (9 * channels)) ** 0.5
        self.weight = [torch.randn(channels, channels, 3, 3) * scale for _ in range(depth)]
        self.weights = [ttnn.from_torch(one) for one in self.weight]
        self.input = self.on_card(picture(0, channels), device)
        shape = (1, 1, SIDE * SIDE, channels)
        self.total = ttnn.from_torch(torch.zeros(shape), layout=ttnn.TILE_LAYOUT, device=device)
        self.compute()
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = self.compute()
        ttnn.end_trace_capture(device, self.trace, cq_id=0)

    def on_card(self, image: torch.Tensor, device: Any = None) -> Any:
        rows = flat(image)
        if self.whole:
            rows = (rows * 32 + 128).clamp(0, 255).to(torch.int32)
        layout = ttnn.TILE_LAYOUT if self.whole else ttnn.ROW_MAJOR_LAYOUT
        return ttnn.from_torch(rows, layout=layout, device=device)

    def conv(self, x: Any, number: int) -> Any:
        y, (self.weights[number], _) = ttnn.conv2d(
            input_tensor=ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT), weight_tensor=self.weights[number],
            device=self.device, in_channels=self.channels, out_channels=self.channels, batch_size=1, input_height=SIDE,
            input_width=SIDE, kernel_size=(3, 3), padding=(1, 1), return_weights_and_bias=True,
        )  # fmt: skip
        return ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)

    def compute(self) -> Any:
        y = ttnn.typecast(self.input, ttnn.float32) if self.whole else self.input
        for number in range(len(self.weight)):
            y = self.conv(y, number)
            if number < len(self.weight) - 1:
                y = ttnn.relu(y)
            if self.sorts and number == 1:
                y, _ = ttnn.sort(y, dim=-1)
        if self.adds_up:
            ttnn.add_(self.total, y)
        return y

    def expected(self, image: torch.Tensor) -> torch.Tensor:
        y = (image * 32 + 128).clamp(0, 255).to(torch.int32).float() if self.whole else image
        for number, weight in enumerate(self.weight):
            y = F.conv2d(y, weight, padding=1)
            if number < len(self.weight) - 1:
                y = F.relu(y)
            if self.sorts and number == 1:
                y = y.sort(dim=1)[0]
        return flat(y)

    def replay(self, image: torch.Tensor) -> torch.Tensor:
        ttnn.copy_host_to_device_tensor(self.on_card(image), self.input)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=True)
        return ttnn.to_torch(self.output).float()

    def learn(self, first: int = 1) -> Program:
        """From so many samples, some more where the trace is compiled anew as a total changes."""
        for seed in range(first, first + SAMPLES + 2):
            self.replay(picture(seed, self.channels))
        assert all(not one.refused and one.outside == 0 for one in self.told)
        return self

    @property
    def told(self) -> list[EightBit]:
        parts = self.device.traces[int(self.trace)].replay.parts
        return [part.eight_bit for part in parts if part.eight_bit is not None]

    @property
    def outside(self) -> int:
        (count,) = {one.outside for one in self.told}
        return count


def flat(image: torch.Tensor) -> torch.Tensor:
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack((a.flatten(), b.flatten())))[0, 1])


def assert_float(found: torch.Tensor, expected: torch.Tensor) -> None:
    """With what is no number where torch has it."""
    assert torch.equal(found.isfinite(), expected.isfinite())
    size = float(expected[expected.isfinite()].abs().max())
    torch.testing.assert_close(found.nan_to_num(0, 0, 0), expected.nan_to_num(0, 0, 0), rtol=1e-3, atol=1e-4 * size)


def opened(**options: Any) -> Any:
    options = {"l1_small_size": 16384, "numerics": "native", "engine": "openvino", "precision": "int8", **options}
    return ttnn.open_device(device_id=0, samples=SAMPLES, guard=GUARD, **options)


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Small programs are not quicker in 8 bits: here they are taken to be. ONNX Runtime keeps what is not a number in
    float; OpenVINO's ReLU does not."""
    monkeypatch.setattr(int8_replay, "quicker", lambda *_: (1.0, 2.0))
    device = opened(engine="onnxruntime")
    yield device
    ttnn.close_device(device)


# --- replays ---------------------------------------------------------------------------------------------------------


def test_no_input_is_computed_wrong_unseen(device: Any) -> None:
    program = Program(device).learn()
    image = picture(50)
    for count, (kind, change) in enumerate(UNLIKE.items(), 1):
        x = change(image)
        assert_float(program.replay(x), program.expected(x))
        assert program.outside == count, kind
    for kind, change in OTHERS.items():
        x = change(image)
        assert pcc(program.replay(x), program.expected(x)) >= GUARD, kind


def test_inputs_like_the_samples_stay_in_8_bits(device: Any) -> None:
    program = Program(device).learn()
    for seed in range(100, 150):
        x = picture(seed)
        assert GUARD <= pcc(program.replay(x), program.expected(x)) < 0.99999
    assert program.outside == 0


def test_it_is_told_once_in_the_log_and_counted(device: Any, caplog: pytest.LogCaptureFixture) -> None:
    program = Program(device).learn()
    x = picture(50)
    with caplog.at_level(logging.WARNING, "tt_cnn.virtual"):
        for image in (10 * x, x, 10 * x, with_values(x, nan)):
            program.replay(image)
    (record,) = [one for one in caplog.records if "outside the calibrated range" in one.message]
    assert "runs in float32" in record.message and "value is" in record.message
    (told,) = program.told
    assert str(told).endswith(
        "3 replays ran in float32: inputs outside the calibrated range (not all values are finite)"
    )


def test_values_within_the_network_are_watched(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the inputs look like: here nothing is said of them."""
    program = Program(device).learn()
    monkeypatch.setattr(InputRange, "unlike", lambda *_: "")
    for factor in (5.0, 10.0):
        x = factor * picture(50)
        assert_float(program.replay(x), program.expected(x))
    assert program.outside == 2 and "values within the network" in program.told[0].reason
    program.replay(picture(51))
    assert program.outside == 2


def test_a_cut_trace_runs_in_float_as_a_whole(device: Any) -> None:
    program = Program(device, sorts=True).learn()
    assert len(program.told) == 2
    for count, x in enumerate((0.1 * picture(50), with_values(picture(51), nan)), 1):
        assert_float(program.replay(x), program.expected(x))
        assert program.outside == count
    x = picture(52)
    assert GUARD <= pcc(program.replay(x), program.expected(x)) < 0.99999 and program.outside == 2


def test_what_carries_over_does_so_once(device: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(device, adds_up=True)
    total = ttnn.to_torch(program.total).float()
    images = [picture(seed) for seed in range(1, 20)]
    images[8], images[12] = 10 * images[8], 0.1 * images[12]
    for number, image in enumerate(images):
        with monkeypatch.context() as patch:
            if number == 15:  # it shows only after the run
                patch.setattr(InputRange, "unlike", lambda *_: "")
                image = 10 * image
            program.replay(image)
        total = total + program.expected(image)
        found = ttnn.to_torch(program.total).float()
        assert pcc(found, total) > 0.999, number
        total = found
    assert program.outside == 3  # that the total grows concerns no layer in 8 bits


def test_whole_numbers_are_looked_at_too(device: Any) -> None:
    program = Program(device, whole=True).learn()
    x = picture(50)
    assert GUARD <= pcc(program.replay(x), program.expected(x)) < 0.99999 and program.outside == 0
    assert_float(program.replay(0.1 * x), program.expected(0.1 * x))
    assert program.outside == 1


def test_nothing_is_learnt_from_what_is_not_finite(device: Any) -> None:
    program = Program(device)
    for seed in range(1, 8):
        x = with_values(picture(seed), nan)
        assert_float(program.replay(x), program.expected(x))
    assert not program.told
    assert program.learn().told


def test_chips_are_looked_at_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(int8_replay, "quicker", lambda *_: (1.0, 2.0))
    options = {"numerics": "native", "engine": "openvino", "precision": "int8", "samples": SAMPLES}
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300", l1_small_size=16384, **options)
    try:
        weight = torch.randn(64, 64, generator=torch.Generator().manual_seed(0)) / 8
        on_chips = ttnn.from_torch(weight, layout=ttnn.TILE_LAYOUT, device=mesh)
        split = {"layout": ttnn.TILE_LAYOUT, "mesh_mapper": ttnn.ShardTensorToMesh(mesh, dim=0)}
        x = ttnn.from_torch(torch.zeros(2, 1, 64, 64), device=mesh, **split)
        ttnn.linear(x, on_chips)
        trace = ttnn.begin_trace_capture(mesh, cq_id=0)
        y = ttnn.linear(x, on_chips)
        ttnn.end_trace_capture(mesh, trace, cq_id=0)
        random = torch.Generator().manual_seed(1)
        for number in range(SAMPLES + 4):
            values = torch.randn(2, 1, 64, 64, generator=random)
            if number == SAMPLES + 2:
                values[1] *= 10
            ttnn.copy_host_to_device_tensor(ttnn.from_torch(values, **split), x)
            ttnn.execute_trace(mesh, trace, cq_id=0, blocking=True)
            found = ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0)).float()
            assert pcc(found, values @ weight) > GUARD
        (part,) = mesh.traces[int(trace)].replay.parts
        assert part.eight_bit.outside == 1 and "largest value" not in part.eight_bit.refused
    finally:
        ttnn.close_mesh_device(mesh)


# --- on a GPU, by torch on the CPU -----------------------------------------------------------------------------------


class OnCpu:
    """A graph of the GPU's program, with times that make 8 bits the quicker."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.launches = Launches(nodes, "cpu", torch.bfloat16)

    def __call__(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        for static, value in zip(self.launches.inputs, inputs, strict=True):
            static.copy_(value)
        self.launches.run()
        return [y.float().clone() for y in self.launches.outputs()]

    def seconds_of_convolutions(self) -> dict[int, float]:
        return {id(step.node.inputs[1].value): 1.0 + (not step.in_eight_bits) for step in self._convolutions()}

    def seconds(self) -> float:
        return sum(1.0 + (not step.in_eight_bits) for step in self._convolutions())

    def _convolutions(self) -> list[Convolution]:
        return [step for step in self.launches.calls if isinstance(step, Convolution)]


class OnCpuReplay(LearningBeside):
    """As `Fp8Replay`, which needs Triton."""

    rounding = Fp8Rounding
    precision = EightBits("fp8", GUARD, SAMPLES)

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, OnCpu]:
        return "cuda", OnCpu(nodes)

    def _in_eight_bits(self, part: Part, guard: float) -> Part:
        run = part.run
        assert isinstance(run, OnHost) and isinstance(run.host, OnCpu)
        found, host = in_fp8(run.nodes, run.samples, run.host, OnCpu, guard)
        assert host is not None
        return replace(part, run=OnHost(host, run.sources, run.shapes, run.outputs), eight_bit=found)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(CompilingEngine, "replay", lambda _, commands, outputs: OnCpuReplay(commands, outputs, None))
    device = opened()
    yield device
    ttnn.close_device(device)


def test_fp8_looks_at_inputs_beside_the_replay(gpu: Any) -> None:
    program = Program(gpu, depth=3, channels=32, adds_up=True).learn()
    total = ttnn.to_torch(program.total).float()
    image = picture(50, 32)
    for count, kind in enumerate(("scaled by 10", "zeros", "noise", "nan", "inf"), 1):
        x = UNLIKE[kind](image)
        found, expected = program.replay(x), program.expected(x)
        assert torch.equal(found.isfinite(), expected.isfinite()) and program.outside == count, kind
        real = expected.isfinite()
        if kind != "zeros":
            assert pcc(found[real], expected[real]) > 0.999, kind
        if bool(real.all()):
            total = total + expected
            assert pcc(ttnn.to_torch(program.total).float(), total) > 0.999, kind
    assert "ran in 16 bits" in str(program.told[0])
    for seed in range(60, 70):
        program.replay(picture(seed, 32))
    assert program.outside == 5


# --- what is looked at -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(1, 1, 1024, 3), (2, 3, 32, 32), (1, 1, 3, 960), (1, 1, 1, 500), (7,), (9, 7), (1, 1), ()]
)
def test_numbers_of_an_input(shape: tuple[int, ...]) -> None:
    value = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2 + 1
    found = dict(zip(NAMES, statistics(value).tolist(), strict=True))
    assert found["least value"] == float(value.min()) and found["largest value"] == float(value.max())
    if value.numel() % 16 == 0 and value.numel() > 16:
        assert found["mean"] == pytest.approx(float(value.mean()), abs=1e-5)
        assert found["deviation"] == pytest.approx(float(value.std(correction=0)), rel=0.02)
        assert found["deviation within lines"] == pytest.approx(2, rel=0.1)
        assert found["roughness"] == pytest.approx(2 * 2 / torch.pi**0.5, rel=0.2)
    assert not InputRange.of([value, value]).unlike(statistics(value).tolist())


def test_whole_and_changing_numbers_have_a_range() -> None:
    samples = [torch.randint(0, 200, (1, 1, 64, 3), generator=torch.Generator().manual_seed(n)) for n in range(3)]
    known = InputRange.of(samples)
    assert known.unlike(statistics(samples[0] * 2).tolist()).startswith("the largest value is")
    assert known.unlike([0.0, nan, *[1.0] * 6]) == "not all values are finite"


def test_padding_does_not_hide_what_inputs_are() -> None:
    """Rows of 8 channels that are far from 0, padded to a tile."""
    samples = [F.pad(flat(picture(seed)) + 100, (0, 24)) for seed in range(5)]
    known = InputRange.of(samples[:-1])
    assert not known.unlike(statistics(samples[-1]).tolist())
    low = F.pad(0.1 * flat(picture(6)) + 100, (0, 24))
    assert known.unlike(statistics(low).tolist()).startswith("the deviation within lines is")


def test_a_ball_is_as_wide_as_samples_lie_apart() -> None:
    rows = torch.tensor([[1.0, 0.0], [3.0, 0.0]])
    ball = Ball.around(rows)
    assert ball.center.tolist() == [2.0, 0.0] and ball.radius == 6.0
    assert ball.holds(torch.tensor([[7.9, 0.0]])) and not ball.holds(torch.tensor([[2.0, 0.0], [8.1, 0.0]]))
    assert not ball.holds(torch.tensor([[nan, 0.0]]))
    assert Ball.around(torch.ones(3, 4)).radius > 0.1  # though they are all the same


def test_witnesses_are_small_and_spread_over_the_graph() -> None:
    node = Node("input", (), (0,), (2, 4, 16, 16))
    scale, zero = (Node("constant", (), (), (), torch.tensor(value)) for value in (0.1, 0))
    for number in range(8):
        size = 8 if number % 2 else 16
        node = Node("max_pool", (node,), ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)), (2, 4, size, size))
        eight = Node("quantize", (node, scale, zero), (), node.shape)
        node = Node("dequantize", (eight, scale, zero), (), node.shape)
    found = witnesses_of([node])
    assert [one.node.source.shape[-1] for one in found] == [8] * 4
    assert all(one.node.shape == (2, 4, 1, 1) and not one.whole for one in found)
    assert (found[0].low, found[0].high) == (0.0, pytest.approx(25.5))


def test_of_a_vector_all_that_is_cut_off_is_known() -> None:
    """Within the ball of samples that lie far apart, and still beyond what rounding leaves."""
    x = Node("input", (), (0,), (1, 2, 1, 1))
    host = Watched(lambda inputs: evaluated([x, x], inputs), WatchedGraph([x], [Witness(x, 0.0, 2.0, True)]))
    for values in ([1.0, 0.0], [2.0, 0.0]):
        host([torch.tensor(values).reshape(x.shape)])
    host.learn()
    for values, alike in (([2.0, 1.0], True), ([2.02, 1.0], True), ([2.5, 1.0], False), ([2.0, -0.5], False)):
        host([torch.tensor(values).reshape(x.shape)])
        assert bool(host.unlike()) is not alike


def test_a_watched_graph_hands_on_its_own_outputs() -> None:
    x = Node("input", (), (0,), (2, 3, 4, 4))
    nodes = [Node("unary", (x,), ("Relu",), x.shape), Node("reduce", (x,), ("amax", (2, 3)), (2, 3, 1, 1))]
    witness = Witness(nodes[1], -9.0, 9.0, False)
    host = Watched(lambda inputs: evaluated(nodes, inputs), WatchedGraph(nodes[:1], [witness]))
    random = torch.Generator().manual_seed(0)
    for _ in range(4):
        assert len(host([torch.randn(2, 3, 4, 4, generator=random)])) == 1
    host.learn()
    host([torch.randn(2, 3, 4, 4, generator=random)])
    assert not host.unlike()
    one_of_two = torch.randn(2, 3, 4, 4, generator=random)
    one_of_two[1] *= 20
    host([one_of_two])
    assert "values within the network" in host.unlike() and not host.unlike()
