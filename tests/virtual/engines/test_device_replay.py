# SPDX-License-Identifier: Apache-2.0
"""Replays with `device` numerics: what the kernels give beside what the commands give one by one in torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from tt_cnn.testing.pcc import comp_pcc
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay.replay import Replay

SIDE, CHANNELS = 24, 64
Layer = Callable[["Network", Any], Any]


@contextmanager
def opened(engine: str) -> Iterator[Any]:
    device = ttnn.open_device(device_id=0, l1_small_size=16384, numerics="device", engine=engine, hazards="raise")
    try:
        yield device
    finally:
        ttnn.close_device(device)


NUMBERS = {"MISH": (0.0,), "LEAKY_RELU": (0.1,)}
"""Of activations that need some."""


class Network:
    """Layers one after the other, from a persistent input, traced."""

    def __init__(self, device: Any, *layers: Layer, dtype: Any = None) -> None:
        self.device, self.layers, self.dtype = device, layers, dtype or ttnn.bfloat16
        self.weights: dict[str, Any] = {}
        self.input = self.place(torch.zeros(1, CHANNELS, SIDE, SIDE), device=device)
        self.compute()
        self.trace = ttnn.begin_trace_capture(device, cq_id=0)
        self.output = self.compute()
        ttnn.end_trace_capture(device, self.trace, cq_id=0)

    def place(self, image: torch.Tensor, **where: Any) -> Any:
        flat = image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1])
        return ttnn.from_torch(flat, dtype=self.dtype, layout=ttnn.TILE_LAYOUT, **where)

    def compute(self) -> Any:
        y = self.input
        for layer in self.layers:
            y = layer(self, y)
        return y

    def replay(self, image: torch.Tensor) -> torch.Tensor:
        ttnn.copy_host_to_device_tensor(self.place(image), self.input)
        ttnn.execute_trace(self.device, self.trace, cq_id=0, blocking=True)
        return ttnn.to_torch(self.output).float()

    @property
    def replayed_by(self) -> Any:
        return self.device.traces[int(self.trace)].replay


def conv(
    name: str,
    outputs: int = CHANNELS,
    *,
    kernel: int = 3,
    stride: int = 1,
    side: int = SIDE,
    inputs: int = CHANNELS,
    activation: str | None = None,
    fidelity: str = "HiFi4",
    fp32: bool = False,
    l1: bool = False,
    weights: str = "bfloat16",
    output: str = "bfloat16",
    layout: str = "HEIGHT_SHARDED",
) -> Layer:
    def run(network: Network, x: Any) -> Any:
        torch.manual_seed(len(name) + sum(map(ord, name)))
        fan = inputs * kernel * kernel
        given = network.weights.get(name) or [
            ttnn.from_torch(torch.randn(outputs, inputs, kernel, kernel) / fan**0.5),
            ttnn.from_torch(torch.randn(1, 1, 1, outputs) / 4),
        ]
        numbers = NUMBERS.get(activation or "", ())
        unary = None if activation is None else ttnn.UnaryWithParam(getattr(ttnn.UnaryOpType, activation), *numbers)
        y, network.weights[name] = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=given[0],
            bias_tensor=given[1],
            device=network.device,
            in_channels=inputs,
            out_channels=outputs,
            batch_size=1,
            input_height=side,
            input_width=side,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(kernel // 2, kernel // 2),
            dtype=getattr(ttnn, output),
            conv_config=ttnn.Conv2dConfig(
                weights_dtype=getattr(ttnn, weights),
                activation=unary,
                shard_layout=getattr(ttnn.TensorMemoryLayout, layout),
            ),
            compute_config=ttnn.init_device_compute_kernel_config(
                network.device.arch(),
                math_fidelity=getattr(ttnn.MathFidelity, fidelity),
                fp32_dest_acc_en=fp32,
                packer_l1_acc=l1,
            ),
            return_weights_and_bias=True,
        )
        return ttnn.to_memory_config(y, ttnn.DRAM_MEMORY_CONFIG)

    return run


def images(count: int) -> list[torch.Tensor]:
    torch.manual_seed(1)
    return [torch.randn(1, CHANNELS, SIDE, SIDE) for _ in range(count)]


def residual(network: Network, x: Any) -> Any:
    return ttnn.add(x, ttnn.mish(x))


def pool(network: Network, x: Any) -> Any:
    rows = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
    return ttnn.max_pool2d(rows, 1, SIDE, SIDE, CHANNELS, [2, 2], [2, 2], [0, 0], [1, 1])


def up(network: Network, x: Any) -> Any:
    rows = ttnn.to_layout(ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG), ttnn.ROW_MAJOR_LAYOUT)
    big = ttnn.upsample(ttnn.reshape(rows, (1, SIDE // 2, SIDE // 2, CHANNELS)), 2)
    flat = ttnn.reshape(big, (1, 1, SIDE * SIDE, CHANNELS))
    return ttnn.concat([ttnn.to_layout(flat, ttnn.TILE_LAYOUT), ttnn.leaky_relu(network.input, 0.1)], dim=-1)


def linear(network: Network, x: Any) -> Any:
    if "linear" not in network.weights:
        torch.manual_seed(5)
        matrix, row = torch.randn(CHANNELS, 96) / 8, torch.randn(1, 96)
        network.weights["linear"] = [
            ttnn.from_torch(one, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=network.device)
            for one in (matrix, row)
        ]
    weight, bias = network.weights["linear"]
    return ttnn.linear(x, weight, bias=bias, activation="silu")


CONVOLUTIONS: dict[str, Layer] = {
    "LoFi": conv("a", fidelity="LoFi", activation="RELU"),
    "LoFi, added by the packer": conv("b", fidelity="LoFi", l1=True, weights="bfloat8_b", output="bfloat8_b"),
    "HiFi2, a walk": conv("c", fidelity="HiFi2", activation="SILU"),
    "HiFi3": conv("d", fidelity="HiFi3"),
    "HiFi4, float32": conv("e", fp32=True, l1=True, activation="MISH"),
    "float32, blocks": conv("f", fp32=True, weights="bfloat8_b", output="bfloat8_b", activation="RELU"),
    "HiFi2, blocks": conv("g", fidelity="HiFi2", weights="bfloat8_b", output="bfloat8_b", activation="LEAKY_RELU"),
    "block sharded": conv("h", fidelity="LoFi", l1=True, output="bfloat8_b", layout="BLOCK_SHARDED"),
    "odd channels": conv("i", 43, fidelity="LoFi", l1=True, output="bfloat8_b", activation="SIGMOID"),
    "stride": conv("j", 128, stride=2, fidelity="LoFi", weights="bfloat4_b", output="bfloat8_b"),
    "1x1": conv("k", 256, kernel=1, fidelity="LoFi", weights="bfloat8_b", output="bfloat8_b"),
    "followed": conv("l", 32, kernel=1, fidelity="LoFi"),
}
NETWORKS: dict[str, tuple[Layer, ...]] = {
    "residual": (conv("a", fidelity="LoFi", l1=True, output="bfloat8_b"), residual, conv("b", fidelity="LoFi")),
    "pool, upsample, concat": (conv("a", fidelity="LoFi"), pool, up, conv("b", inputs=2 * CHANNELS, fidelity="LoFi")),
    "linear": (conv("a", fidelity="LoFi", output="bfloat8_b"), linear),
}


def check(*layers: Layer, least: float) -> None:
    with opened("kernels") as device:
        network = Network(device, *layers)
        answers = [network.replay(image) for image in images(3)]
        assert torch.equal(answers[2], network.replay(images(3)[2]))
        assert torch.equal(answers[2], ttnn.to_torch(network.compute()).float()), "another value without the trace"
        assert isinstance(network.replayed_by, Replay)
        assert [(part.engine, part.reason) for part in network.replayed_by.parts] == [("kernels", "")]
    with opened("torch") as device:
        network = Network(device, *layers)
        for image, found in zip(images(3), answers, strict=True):
            expected = network.replay(image)
            assert comp_pcc(expected, found, least)[0], comp_pcc(expected, found, least)[1]
            assert abs(float(found.std() / expected.std()) - 1) < 2e-3


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_replays_as_its_command_does(name: str) -> None:
    """Two walks drawn from different bits differ by as much as a walk is long."""
    check(CONVOLUTIONS[name], least=0.9995 if "walk" in name else 0.9999)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_replays_as_its_commands_do(name: str) -> None:
    check(*NETWORKS[name], least=0.9998)


def special_image() -> torch.Tensor:
    (image,) = images(1)
    for i, value in enumerate((float("inf"), -float("inf"), float("nan"), 3.3e38, 1e-40, -0.0)):
        image[0, 5 * i, 3 * i : 3 * i + 2, 4] = value
    return image


ELEMENTWISE: dict[str, tuple[Layer, ...]] = {
    name: (lambda network, x, name=name: getattr(ttnn, name)(x),)
    for name in ("relu", "relu6", "silu", "mish", "sigmoid", "tanh", "exp", "reciprocal", "rsqrt", "log")
} | {
    "leaky_relu": (lambda network, x: ttnn.leaky_relu(x, 0.1),),
    "sum of two": (lambda network, x: ttnn.add(x, ttnn.neg(ttnn.relu(x))),),
    "product of two": (lambda network, x: ttnn.multiply(x, ttnn.relu(x)),),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, *NETWORKS, *ELEMENTWISE])
def test_special_values_are_the_same_with_a_trace_and_without(name: str) -> None:
    layers = (CONVOLUTIONS[name],) if name in CONVOLUTIONS else (NETWORKS | ELEMENTWISE)[name]
    for dtype in (ttnn.bfloat16,) if name in CONVOLUTIONS or name in NETWORKS else (ttnn.bfloat16, ttnn.float32):
        with opened("kernels") as device:
            network = Network(device, *layers, dtype=dtype)
            network.replay(images(1)[0])
            replayed = network.replay(special_image())
            eager = ttnn.to_torch(network.compute()).float()
            same = (replayed.view(torch.int32) == eager.view(torch.int32)) | (replayed.isnan() & eager.isnan())
            assert bool(same.all()), f"{int((~same).sum())} of {same.numel()} differ"
