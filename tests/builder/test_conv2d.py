# SPDX-License-Identifier: Apache-2.0
"""Convolution layers against torch, and their weights, which are prepared once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import (
    AutoShardedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    MaxPool2dConfiguration,
    ShardedStrategyConfiguration,
    TtConv2d,
    TtMaxPool2d,
    WidthShardedStrategyConfiguration,
    sharding_strategy_to_conv2d_config,
    to_conv2d_config,
)
from tt_cnn.preprocessing import infer_ttnn_module_args, preprocess_model_parameters

STRATEGIES = (
    AutoShardedStrategyConfiguration(),
    HeightShardedStrategyConfiguration(),
    WidthShardedStrategyConfiguration(),
    BlockShardedStrategyConfiguration(),
)


def expected(configuration: Conv2dConfiguration, x: torch.Tensor) -> torch.Tensor:
    bias = None if configuration.bias is None else ttnn.to_torch(configuration.bias).reshape(-1)
    return F.conv2d(
        x,
        ttnn.to_torch(configuration.weight),
        bias,
        configuration.stride,
        configuration.padding,
        configuration.dilation,
        configuration.groups,
    )


@pytest.mark.parametrize(
    "num_cores, rows, columns", [(1, 1, 1), (1, 8, 8), (4, 8, 8), (63, 8, 8), (64, 8, 8), (9, 8, 7)]
)
def test_a_grid_has_as_many_cores_as_asked(num_cores: int, rows: int, columns: int) -> None:
    grid = ShardedStrategyConfiguration.get_core_grid_from_num_cores(num_cores, rows, columns)
    assert grid.num_cores() == num_cores
    assert grid.bounding_box().end.x == min(num_cores, rows) - 1


def test_a_grid_holds_no_more_cores_than_it_has() -> None:
    with pytest.raises(ValueError, match="num_cores is 65; it must be between 1 and 64"):
        ShardedStrategyConfiguration.get_core_grid_from_num_cores(65, 8, 8)


@pytest.mark.parametrize(
    "size, in_channels, batch, kernel, strategy",
    [
        (size, channels, batch, kernel, strategy)
        for i, (size, channels, batch, kernel, strategy) in enumerate(
            product([(8, 8), (16, 8)], [8, 16], [1, 2], [3, 5], STRATEGIES)
        )
        if i % 3 == 0
    ],
)
def test_conv2d_agrees_with_torch(
    size: tuple[int, int], in_channels: int, batch: int, kernel: int, strategy: Any, device: Any, images: Any
) -> None:
    configuration = Conv2dConfiguration.with_random_weights(
        *size, in_channels, 16, batch, (kernel, kernel), padding=(kernel // 2, kernel // 2), sharding_strategy=strategy
    )
    x = images.random(batch, in_channels, *size)
    output = TtConv2d(configuration, device)(images.put(x, host=True))
    assert output.shape == (1, 1, batch * size[0] * size[1], 16)
    images.assert_close(expected(configuration, x), output)


@pytest.mark.parametrize("bias", [True, False])
def test_from_torch_takes_shape_and_weights(bias: bool, device: Any, images: Any) -> None:
    layer = torch.nn.Conv2d(8, 16, 3, stride=2, padding=1, bias=bias)
    configuration = Conv2dConfiguration.from_torch(torch_layer=layer, input_height=8, input_width=8, batch_size=1)
    for name in ("in_channels", "out_channels", "kernel_size", "stride", "padding", "groups", "dilation"):
        assert getattr(configuration, name) == getattr(layer, name)
    assert torch.equal(ttnn.to_torch(configuration.weight), layer.weight.data)
    assert (configuration.bias is not None) == bias
    configuration.validate_weights()
    x = images.random(1, 8, 8, 8)
    images.assert_close(layer(x), TtConv2d(configuration, device)(images.put(x, host=True)))


@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": "same"},
        {"kernel_size": (2, 3), "padding": "same"},
        {"kernel_size": 3, "padding": "valid"},
        {"kernel_size": 3, "padding": 1, "padding_mode": "replicate"},
        {"kernel_size": 3, "padding": (2, 1), "dilation": (2, 1)},
        {"kernel_size": 3, "padding": 1, "groups": 4},
    ],
    ids=str,
)
def test_from_torch_knows_all_of_torchs_forms(options: dict[str, Any], device: Any, images: Any) -> None:
    layer = torch.nn.Conv2d(16, 16, **options)
    configuration = Conv2dConfiguration.from_torch(layer, 10, 12, 1)
    x = images.random(1, 16, 10, 12)
    output, size = TtConv2d(configuration, device)(images.put(x), return_output_dim=True)
    reference = layer(x)
    assert size == tuple(reference.shape[-2:])
    images.assert_close(reference, output)


def test_from_torch_refuses_padding_that_ttnn_has_not() -> None:
    layer = torch.nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect")
    with pytest.raises(ValueError, match="padding_mode is 'reflect'; it must be 'zeros' or 'replicate'"):
        Conv2dConfiguration.from_torch(layer, 8, 8, 1)


class TwoConvolutions(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = torch.nn.Conv2d(8, 16, 5, padding=2)
        self.body = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv2d(16, 32, 3, stride=2, groups=2, bias=False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.body(self.stem(x))
        return result


def test_from_model_args_takes_what_was_inferred(device: Any, images: Any) -> None:
    model = TwoConvolutions().eval()
    x = images.random(2, 8, 12, 16)
    found = infer_ttnn_module_args(model=model, run_model=lambda m: m(x), device=device)
    parameters = preprocess_model_parameters(initialize_model=lambda: model)
    stem = Conv2dConfiguration.from_model_args(
        found.stem, parameters.stem.weight, parameters.stem.bias, activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
    )
    body = Conv2dConfiguration.from_model_args(
        found.body[1], weights=parameters.body[1].weight, output_dtype=ttnn.bfloat8_b
    )
    assert (stem.input_height, stem.input_width, stem.batch_size, stem.padding) == (12, 16, 2, (2, 2))
    assert (body.input_height, body.stride, body.groups, body.bias) == (12, (2, 2), 2, None)
    assert stem.output_dtype == ttnn.bfloat16 and body.output_dtype == ttnn.bfloat8_b  # settings come after
    assert stem.weight is parameters.stem.weight and stem.bias is parameters.stem.bias
    images.assert_close(model(x), TtConv2d(body, device)(TtConv2d(stem, device)(images.put(x))))


def test_the_first_calls_of_several_threads_prepare_weights_once(
    device: Any, images: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = []
    convolve = TtConv2d.convolve

    def noting(self: Any, x: Any, in_channels: int, weight: Any, bias: Any) -> Any:
        if not ttnn.is_tensor_storage_on_device(weight):
            prepared.append(weight)
            time.sleep(0.05)
        return convolve(self, x, in_channels, weight, bias)

    monkeypatch.setattr(TtConv2d, "convolve", noting)
    layer = TtConv2d(Conv2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3)), device)
    x = images.put(images.random(1, 16, 8, 8))
    with ThreadPoolExecutor(4) as pool:
        outputs = [ttnn.to_torch(y) for y in pool.map(lambda _: layer(x), range(8))]
    assert len(prepared) == 1
    assert all(torch.equal(outputs[0], one) for one in outputs)


def test_a_first_call_that_fails_can_be_tried_again(device: Any, images: Any) -> None:
    layer = TtConv2d(Conv2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3)), device)
    with pytest.raises(RuntimeError):
        layer(images.put(images.random(1, 16, 4, 4)))
    assert layer(images.put(images.random(1, 16, 8, 8))).shape == (1, 1, 36, 16)


def test_keywords_of_the_op_are_there_for_users_who_call_it_themselves(device: Any, images: Any) -> None:
    configuration = Conv2dConfiguration.with_random_weights(8, 8, 16, 32, 1, (3, 3), padding=(1, 1))
    layer = TtConv2d(configuration, device)
    x = images.put(images.random(1, 16, 8, 8))
    output, size = ttnn.conv2d(
        input_tensor=x,
        weight_tensor=layer.weight,
        bias_tensor=layer.bias,
        compute_config=layer.compute_config,
        return_output_dim=True,
        **layer.get_conv2d_kwargs(),
    )
    assert tuple(size) == (8, 8) and torch.equal(ttnn.to_torch(output), ttnn.to_torch(layer(x)))


@pytest.mark.parametrize("kernel, stride", [(3, 1), (3, 2), (5, 1), (1, 2)])
def test_the_output_size_is_ttnns(kernel: int, stride: int, device: Any, images: Any) -> None:
    configuration = Conv2dConfiguration.with_random_weights(
        16, 8, 8, 16, 1, (kernel, kernel), stride=(stride, stride), padding=(kernel // 2, kernel // 2)
    )
    x = images.put(images.random(1, 8, 16, 8))
    layer = TtConv2d(configuration, device)
    output, size = layer(x, return_output_dim=True)
    pad = 2 * (kernel // 2)
    assert size == ((16 + pad - kernel) // stride + 1, (8 + pad - kernel) // stride + 1)
    assert output.shape[2] == size[0] * size[1]
    assert isinstance(layer(x), ttnn.Tensor)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_downblock_of_chained_layers(batch: int, device: Any, images: Any) -> None:
    strategy = HeightShardedStrategyConfiguration(act_block_h_override=64, reshard_if_not_optimal=False)
    shapes = ((16, 32), (32, 32))
    convolutions = [
        Conv2dConfiguration.with_random_weights(32, 32, a, b, batch, (3, 3), padding=(1, 1), sharding_strategy=strategy)
        for a, b in shapes
    ]
    pool = MaxPool2dConfiguration(32, 32, 32, batch_size=batch, kernel_size=(2, 2), stride=(2, 2))
    reference = images.random(batch, 16, 32, 32)
    x = images.put(reference, host=True)
    for configuration in convolutions:
        x = TtConv2d(configuration, device)(x)
        reference = expected(configuration, reference)
    images.assert_close(F.max_pool2d(reference, 2), TtMaxPool2d(pool, device)(x))


def test_weights_are_prepared_once(device: Any, images: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration = Conv2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3), padding=(1, 1))
    layer = TtConv2d(configuration, device)
    x = images.random(1, 16, 8, 8)
    assert layer.weight is configuration.weight and not ttnn.is_tensor_storage_on_device(layer.weight)
    first = ttnn.to_torch(layer(images.put(x)))
    assert ttnn.is_tensor_storage_on_device(layer.weight) and ttnn.is_tensor_storage_on_device(layer.bias)
    prepared = layer.weight.buffer_address(), layer.bias.buffer_address()
    dram = ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank
    for _ in range(3):
        assert torch.equal(ttnn.to_torch(layer(images.put(x))), first)
    assert (layer.weight.buffer_address(), layer.bias.buffer_address()) == prepared
    assert ttnn.get_memory_view(device, ttnn.BufferType.DRAM).total_bytes_allocated_per_bank == dram
    assert not ttnn.is_tensor_storage_on_device(configuration.weight), "the configuration serves other devices too"


def test_low_precision_and_fused_activation(device: Any, images: Any) -> None:
    configuration = Conv2dConfiguration.with_random_weights(
        16,
        16,
        32,
        32,
        1,
        (3, 3),
        padding=(1, 1),
        weights_dtype=ttnn.bfloat8_b,
        output_dtype=ttnn.bfloat8_b,
        activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
        math_fidelity=ttnn.MathFidelity.HiFi2,
        fp32_dest_acc_en=True,
        packer_l1_acc=True,
        enable_act_double_buffer=True,
    )
    layer = TtConv2d(configuration, device)
    x = images.random(1, 32, 16, 16)
    output = layer(images.put(x))
    assert output.dtype == ttnn.bfloat8_b and layer.weight.dtype == ttnn.bfloat8_b
    images.assert_close(expected(configuration, x).relu(), output)


def test_deallocate_activation_frees_an_input_in_l1(device: Any, images: Any) -> None:
    for frees in (False, True):
        configuration = Conv2dConfiguration.with_random_weights(
            16, 16, 32, 32, 1, (3, 3), padding=(1, 1), deallocate_activation=frees,
            sharding_strategy=HeightShardedStrategyConfiguration(),
        )  # fmt: skip
        x = images.put(images.random(1, 32, 16, 16), memory_config=ttnn.L1_MEMORY_CONFIG)
        TtConv2d(configuration, device)(x)
        assert x.is_allocated() != frees


def test_options_reach_ttnn() -> None:
    """Defaults are TT-CNN's: weights are double-buffered, activations are not."""
    plain = to_conv2d_config(Conv2dConfiguration.with_random_weights(8, 8, 32, 32, 1, (3, 3)))
    assert plain.enable_weights_double_buffer and not plain.enable_act_double_buffer
    assert plain.shard_layout is None and not plain.reshard_if_not_optimal and not plain.override_sharding_config
    grid = ShardedStrategyConfiguration.get_core_grid_from_num_cores(8, 8, 8)
    block = BlockShardedStrategyConfiguration(
        override_core_grid=grid, act_block_h_override=64, act_block_w_div=2, override_output_sharding_config=True
    )
    config = to_conv2d_config(
        Conv2dConfiguration.with_random_weights(
            8, 8, 32, 32, 1, (3, 3), sharding_strategy=block, config_tensors_in_dram=True, reallocate_halo_output=False
        )
    )
    assert config.shard_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
    assert config.core_grid == grid and config.override_sharding_config and config.override_output_sharding_config
    assert (config.act_block_h_override, config.act_block_w_div) == (64, 2)
    assert config.config_tensors_in_dram and not config.reallocate_halo_output
    assert "act_block_h_override" not in sharding_strategy_to_conv2d_config(WidthShardedStrategyConfiguration())
