# SPDX-License-Identifier: Apache-2.0
"""Activations, products and batch norms as layers of their own, on tensors wherever these are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    ActivationConfiguration,
    BatchNorm2dConfiguration,
    MultiplyConfiguration,
    PReLUConfiguration,
    TtActivation,
    TtBatchNorm2d,
    TtMultiply,
    TtPReLU,
    activation_from_torch,
)

RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
SILU = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
ACTIVATIONS = (
    nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.SiLU(), nn.Mish(), nn.GELU(), nn.GELU(approximate="tanh"),
    nn.Hardswish(), nn.Hardsigmoid(), nn.Sigmoid(), nn.Tanh(), nn.ELU(), nn.ELU(0.5), nn.CELU(0.7), nn.SELU(),
    nn.Softplus(), nn.Softplus(2, 10), nn.Hardtanh(-1, 2), nn.Softsign(), nn.LogSigmoid(), nn.Hardshrink(),
    nn.Softshrink(), nn.Tanhshrink(), nn.Threshold(0.5, 0.25),
)  # fmt: skip
SHAPES = [(1, 7, 64), (2, 7, 40), (1, 14, 116), (2, 14, 24)]
"""(images, height and width, channels)."""


def pixels(images: int, side: int, channels: int) -> torch.Tensor:
    return torch.randn(1, 1, images * side * side, channels, dtype=torch.bfloat16).float()


@pytest.mark.parametrize("activation", ACTIVATIONS, ids=str)
def test_activations_are_torchs(activation: nn.Module, where: str, place: Callable[..., Any], device: Any) -> None:
    values = 3 * pixels(2, 7, 40)
    given = place(values, where)
    output = TtActivation(ActivationConfiguration.from_torch(activation), device)(given)
    assert output.memory_config() == given.memory_config() and given.is_allocated()
    assert_rows(activation(values), output)


@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
def test_an_activation_in_place_and_elsewhere(
    dtype: Any, where: str, place: Callable[..., Any], device: Any, l1_in_use: Callable[[], int]
) -> None:
    values = pixels(1, 14, 64)
    given = place(values, where, dtype)
    before = l1_in_use()
    output = TtActivation(ActivationConfiguration(SILU, in_place=True), device)(given)
    assert output.buffer_address() == given.buffer_address() and l1_in_use() == before
    settings = {"memory_config": ttnn.DRAM_MEMORY_CONFIG, "deallocate_input": True}
    again = TtActivation(ActivationConfiguration(ttnn.UnaryOpType.RELU, **settings), device)(output)
    assert again.memory_config() == ttnn.DRAM_MEMORY_CONFIG and not output.is_allocated() and l1_in_use() == 0
    assert_rows(nn.functional.silu(values).relu(), again)


@pytest.mark.parametrize("op_type", ["EXP", "SQRT", "ABS"])
def test_other_functions_of_the_vector_unit(op_type: str, place: Callable[..., Any], device: Any) -> None:
    values = pixels(1, 7, 64).abs()
    layer = TtActivation(ActivationConfiguration(getattr(ttnn.UnaryOpType, op_type)), device)
    assert_rows(getattr(torch, op_type.lower())(values), layer(place(values)))


def test_mish_says_which_form_it_takes() -> None:
    """TT-NN 0.81.1: `Undefined non-parametrized op type UnaryOpType::MISH`, in sums, products, convolutions."""
    mish = activation_from_torch(nn.Mish())
    assert (mish.op_type, list(mish.params)) == (ttnn.UnaryOpType.MISH, [0.0])


def test_activations_that_are_none() -> None:
    assert activation_from_torch(None) is None and activation_from_torch(nn.Identity()) is None
    with pytest.raises(ValueError, match="the activation is Linear; it must be one of CELU, ELU, GELU"):
        activation_from_torch(nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"LEAKY_RELU.*; it must be a ttnn.UnaryWithParam with 1 number"):
        ActivationConfiguration(ttnn.UnaryOpType.LEAKY_RELU)
    with pytest.raises(ValueError, match="in_place is True; it must be False with a memory_config"):
        ActivationConfiguration(RELU, in_place=True, memory_config=ttnn.L1_MEMORY_CONFIG)


@pytest.mark.parametrize("parameters", [1, 40])
@pytest.mark.parametrize("in_place", [False, True])
def test_prelu(
    parameters: int, in_place: bool, where: str, place: Callable[..., Any], device: Any, l1_in_use: Callable[[], int]
) -> None:
    torch_layer = nn.PReLU(parameters)
    nn.init.normal_(torch_layer.weight)
    values = pixels(2, 7, 40)
    given = place(values, where)
    before, memory = l1_in_use(), given.memory_config()
    configuration = PReLUConfiguration.from_torch(torch_layer, in_place=in_place, deallocate_input=True)
    output = TtPReLU(configuration, device)(given)
    assert output.memory_config() == memory
    assert given.is_allocated() == in_place and l1_in_use() == before
    assert_rows(torch.where(values > 0, values, values * torch_layer.weight), output)


@pytest.mark.parametrize("images, side, channels", SHAPES)
def test_products_of_one_shape(
    images: int, side: int, channels: int, where: str, place: Callable[..., Any], device: Any
) -> None:
    x, y = pixels(images, side, channels), pixels(images, side, channels)
    factors = place(x, where), place(y, "l1")
    output = TtMultiply(MultiplyConfiguration(activation=RELU), device)(*factors)
    assert output.memory_config() == factors[0].memory_config() and all(one.is_allocated() for one in factors)
    assert_rows((x * y).relu(), output)


@pytest.mark.parametrize("images, side, channels", [*SHAPES, (2, 8, 64), (3, 7, 96)])
@pytest.mark.parametrize("in_rows", [True, False])
def test_gates_reach_the_pixels_of_their_images(
    images: int,
    side: int,
    channels: int,
    in_rows: bool,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    x = pixels(images, side, channels)
    gate = torch.rand(1, 1, images, channels).bfloat16().float()
    given = place(x, where)
    before = l1_in_use()
    factor = place(gate if in_rows else gate.reshape(images, 1, 1, channels), "l1")
    configuration = MultiplyConfiguration(images, deallocate_input=True, deallocate_other=True)
    output = TtMultiply(configuration, device)(given, factor)
    assert not given.is_allocated() and not factor.is_allocated() and l1_in_use() == before
    assert tuple(output.shape) == tuple(x.shape)
    expected = x.reshape(images, -1, channels) * gate.reshape(images, 1, channels)
    assert_rows(expected, output, 0.9999)


def test_a_product_in_place_of_images_and_maps(place: Callable[..., Any], device: Any) -> None:
    """A map of one channel is spread over all, and images (N, 1, H*W, C) take their gates as they are."""
    x, scores = pixels(1, 7, 64), torch.rand(1, 1, 49, 1).bfloat16().float()
    given = place(x, "height")
    output = TtMultiply(MultiplyConfiguration(in_place=True), device)(given, place(scores))
    assert output.buffer_address() == given.buffer_address()
    assert_rows(x * scores, output)
    images, gate = torch.randn(2, 1, 49, 64), torch.rand(2, 1, 1, 64)
    settings = {"output_dtype": ttnn.bfloat8_b, "memory_config": ttnn.L1_MEMORY_CONFIG}
    output = TtMultiply(MultiplyConfiguration(**settings), device)(place(images), place(gate))
    assert output.dtype == ttnn.bfloat8_b and output.memory_config() == ttnn.L1_MEMORY_CONFIG
    assert_rows(images * gate, output)


def test_a_factor_of_another_shape_is_refused(place: Callable[..., Any], device: Any) -> None:
    layer = TtMultiply(MultiplyConfiguration(), device, name="gate")
    with pytest.raises(ValueError, match=r"the second factor is .*; it must have the shape of the first"):
        layer(place(pixels(2, 7, 64)), place(torch.rand(1, 1, 2, 64)))


@pytest.mark.parametrize("images, side, channels", SHAPES)
@pytest.mark.parametrize("dtype", [ttnn.bfloat16, ttnn.bfloat8_b], ids=str)
@pytest.mark.parametrize("in_place", [False, True])
def test_batch_norm2d(
    images: int,
    side: int,
    channels: int,
    dtype: Any,
    in_place: bool,
    where: str,
    place: Callable[..., Any],
    device: Any,
) -> None:
    torch_layer = random_batch_norm(channels)
    values = pixels(images, side, channels)
    given = place(values, where, dtype)
    configuration = BatchNorm2dConfiguration.from_torch(torch_layer, activation=SILU, in_place=in_place)
    layer = TtBatchNorm2d(configuration, device)
    nchw = values.reshape(images, side, side, channels).permute(0, 3, 1, 2)
    expected = nn.functional.silu(torch_layer(nchw)).permute(0, 2, 3, 1)
    output = layer(given)
    assert output.memory_config() == given.memory_config() and output.dtype == dtype
    assert (output.buffer_address() == given.buffer_address()) == in_place
    assert_rows(expected, output)


@pytest.mark.parametrize("side, where, steps", [(56, "height", ["Ternary"]), (7, "height", ["BinaryNg", "BinaryNg"])])
def test_batch_norm2d_takes_the_quicker_way(
    side: int, where: str, steps: list[str], place: Callable[..., Any], device: Any
) -> None:
    from tt_cnn.reports.profile import profile_commands
    from tt_cnn.reports.recording import recorded

    values = pixels(1, side, 64 if side == 56 else 960)
    layer = TtBatchNorm2d(BatchNorm2dConfiguration.from_torch(random_batch_norm(values.shape[-1])), device)
    given = place(values, where)
    layer(given)
    with recorded(device) as commands:
        layer(given)
    assert [row.op for row in profile_commands(commands, device, name="norm").rows] == steps


def random_batch_norm(channels: int) -> nn.BatchNorm2d:
    norm = nn.BatchNorm2d(channels).eval()
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    nn.init.normal_(norm.bias)
    norm.running_mean = torch.randn(channels)
    norm.running_var = torch.rand(channels) + 0.5
    return norm


def test_a_batch_norm_without_statistics_is_refused() -> None:
    with pytest.raises(ValueError, match="torch_layer has no running statistics"):
        BatchNorm2dConfiguration.from_torch(nn.BatchNorm2d(8, track_running_stats=False))
