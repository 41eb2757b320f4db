# SPDX-License-Identifier: Apache-2.0
"""Compiled replays of traces: the same outputs as the commands give one by one, on whichever engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay import choice, hosts
from tt_cnn.virtual.engines.replay.replay import Replay

SIDE, CHANNELS = 12, 8


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TT_CNN_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    device = ttnn.open_device(
        device_id=0, l1_small_size=16384, numerics="native", engine=getattr(request, "param", "cpu"), hazards="raise"
    )
    yield device
    ttnn.close_device(device)


class Program:
    """A convolution with its activation, a residual add and a pool, from a persistent input."""

    def __init__(self, device: Any, *, sorts: bool = False) -> None:
        torch.manual_seed(0)
        self.device, self.sorts = device, sorts
        self.weight, self.bias = torch.randn(CHANNELS, CHANNELS, 3, 3), torch.randn(CHANNELS)
        self.on_card = [ttnn.from_torch(t) for t in (self.weight, self.bias.reshape(1, 1, 1, -1))]
        self.input = self.place(torch.zeros(1, CHANNELS, SIDE, SIDE))
        self.compute()
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = self.compute()
        ttnn.end_trace_capture(device, self.trace, cq_id=0)

    def place(self, image: torch.Tensor) -> Any:
        return ttnn.from_torch(flat(image), layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device)

    def compute(self) -> Any:
        y, self.on_card = ttnn.conv2d(
            input_tensor=self.input,
            weight_tensor=self.on_card[0],
            bias_tensor=self.on_card[1],
            device=self.device,
            in_channels=CHANNELS,
            out_channels=CHANNELS,
            batch_size=1,
            input_height=SIDE,
            input_width=SIDE,
            kernel_size=(3, 3),
            padding=(1, 1),
            conv_config=ttnn.Conv2dConfig(activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)),
            return_weights_and_bias=True,
        )
        y = ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)
        if self.sorts:
            y, _ = ttnn.sort(y, dim=-1)
        y = ttnn.add(ttnn.mish(y), ttnn.to_layout(self.input, ttnn.TILE_LAYOUT))
        return ttnn.sigmoid(y)

    def expected(self, image: torch.Tensor) -> torch.Tensor:
        y = torch.relu(torch.nn.functional.conv2d(image, self.weight, self.bias, padding=1))
        if self.sorts:
            y = y.sort(dim=1)[0]
        return flat(torch.sigmoid(torch.nn.functional.mish(y) + image))

    def replay(self, image: torch.Tensor) -> torch.Tensor:
        host = ttnn.from_torch(flat(image), layout=ttnn.ROW_MAJOR_LAYOUT)
        ttnn.copy_host_to_device_tensor(host, self.input)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=True)
        return ttnn.to_torch(self.output)

    @property
    def compiled(self) -> Any:
        return self.device.traces[int(self.trace)].replay


def flat(image: torch.Tensor) -> torch.Tensor:
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])


def images(count: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(1, CHANNELS, SIDE, SIDE) for _ in range(count)]


@pytest.mark.parametrize("device", ["cpu", "kernels", "openvino", "onnxruntime", "torch"], indirect=True)
def test_every_engine_gives_what_torch_gives(device: Any) -> None:
    program = Program(device)
    for image in images(3):
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", ["kernels", "openvino", "onnxruntime"], indirect=True)
def test_a_whole_program_is_one_part_and_repeats_bit_by_bit(device: Any) -> None:
    program = Program(device)
    (image,) = images(1)
    first = program.replay(image)
    assert [part.reason for part in program.compiled.parts] == [""]
    assert program.compiled.parts[0].engine == program.compiled.host
    assert all(torch.equal(first, program.replay(image)) for _ in range(3))


@pytest.mark.parametrize("device", ["onnxruntime"], indirect=True)
def test_what_an_engine_lacks_runs_in_torch_between_two_parts(device: Any) -> None:
    program = Program(device, sorts=True)
    for image in images(2):
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)
    assert [part.engine for part in program.compiled.parts] == ["onnxruntime", "torch", "onnxruntime"]
    assert "aten.sort" in program.compiled.parts[1].reason


def test_a_constant_that_changes_after_all_is_noticed(device: Any) -> None:
    program = Program(device)
    first, second = images(2)
    program.replay(first)
    program.weight = program.weight * 2
    weight = ttnn.from_torch(program.weight)
    prepared = ttnn.prepare_conv_weights(
        weight_tensor=weight,
        input_memory_config=program.input.memory_config(),
        input_layout=ttnn.ROW_MAJOR_LAYOUT,
        weights_format="OIHW",
        in_channels=CHANNELS,
        out_channels=CHANNELS,
        batch_size=1,
        input_height=SIDE,
        input_width=SIDE,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        dilation=(1, 1),
        has_bias=True,
        groups=1,
        device=device,
        input_dtype=ttnn.bfloat16,
    )
    ttnn.copy(prepared, program.on_card[0])
    ttnn.deallocate(prepared)
    torch.testing.assert_close(program.replay(second), program.expected(second), rtol=1e-4, atol=1e-4)


def test_a_replay_on_the_input_of_the_capture_runs_its_commands(device: Any) -> None:
    program = Program(device)
    ttnn.execute_trace(device, program.trace, cq_id=0, blocking=True)
    expected = program.expected(torch.zeros(1, CHANNELS, SIDE, SIDE))
    torch.testing.assert_close(ttnn.to_torch(program.output), expected, rtol=1e-4, atol=1e-4)
    assert program.compiled.parts == []


def test_the_quicker_engine_is_measured_once_and_remembered(
    device: Any, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (image,) = images(1)
    measured: list[Any] = []
    seconds = {hosts.OpenVino: 1.0, hosts.OnnxRuntime: 2.0, hosts.Kernels: 3.0}

    def pretend(host: Any, *_: Any) -> float:
        measured.append(host)
        return seconds[type(host)]

    monkeypatch.setattr(choice, "_seconds", pretend)
    program = Program(device)
    program.replay(image)
    assert program.compiled.parts[0].engine == "openvino"
    assert {type(host) for host in measured} == set(seconds)
    times = [sum(type(host) is kind for host in measured) for kind in seconds]
    assert times[1] == 1  # twice the best one's time: it is not measured again
    for memory, expected in ((None, sum(times)), ("[", 2 * sum(times))):
        if memory is not None:
            (own_cache / "replay.json").write_text(memory)
        program = Program(device)
        program.replay(image)
        assert program.compiled.parts[0].engine == "openvino"
        assert len(measured) == expected


def test_data_parallel_replays_give_each_chip_its_own() -> None:
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 2), card="n300", numerics="native", engine="onnxruntime")
    try:
        x = ttnn.from_torch(
            torch.zeros(2, 1, 32, 32),
            layout=ttnn.TILE_LAYOUT,
            device=mesh,
            mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0),
        )
        ttnn.relu(x)
        trace = ttnn.begin_trace_capture(mesh, cq_id=0)
        y = ttnn.relu(x)
        ttnn.end_trace_capture(mesh, trace, cq_id=0)
        values = torch.randn(2, 1, 32, 32)
        host = ttnn.from_torch(values, layout=ttnn.TILE_LAYOUT, mesh_mapper=ttnn.ShardTensorToMesh(mesh, dim=0))
        ttnn.copy_host_to_device_tensor(host, x)
        ttnn.execute_trace(mesh, trace, cq_id=0, blocking=True)
        assert mesh.traces[int(trace)].replay.parts[0].engine == "onnxruntime"
        found = ttnn.to_torch(y, mesh_composer=ttnn.ConcatMeshToTensor(mesh, dim=0))
        torch.testing.assert_close(found, values.relu())
    finally:
        ttnn.close_mesh_device(mesh)


def test_engines_of_the_host_need_native_numerics() -> None:
    with pytest.raises(ValueError, match="numerics='native'"):
        ttnn.open_device(device_id=0, engine="openvino", numerics="device")


def test_a_missing_engine_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tt_cnn.virtual.engines.compiling.installed", lambda: ())
    with pytest.raises(RuntimeError, match=r"pip install 'tt-cnn\[cpu\]'"):
        ttnn.open_device(device_id=0, engine="openvino", numerics="native")
    device = ttnn.open_device(device_id=0, l1_small_size=16384, numerics="native")
    try:
        program = Program(device)
        (image,) = images(1)
        torch.testing.assert_close(program.replay(image), program.expected(image), rtol=1e-4, atol=1e-4)
        assert not isinstance(program.compiled, Replay)
    finally:
        ttnn.close_device(device)
