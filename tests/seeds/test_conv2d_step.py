# SPDX-License-Identifier: Apache-2.0
"""The snippets of the conv2d step, as they stand there; what they leave open comes from the fixtures below."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, HeightShardedStrategyConfiguration, TtConv2d
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d
from tt_cnn.testing import assert_with_pcc
from tt_cnn.virtual import ttnn as virtual

Conv2dConfig = ttnn.Conv2dConfig


@pytest.fixture
def device(open_card: Callable[..., Any]) -> Any:
    torch.manual_seed(0)
    return open_card(l1_small_size=65536)


class Convolution:
    """A convolution in both worlds: what `input`, `weight` and `conv` of the snippets stand for."""

    def __init__(self, device: Any, height: int, width: int, channels: int, outputs: int) -> None:
        self.layer = torch.nn.Conv2d(channels, outputs, 3, padding=1)
        self.image = torch.randn(1, channels, height, width).bfloat16().float()
        self.device = device
        self.weight = ttnn.from_torch(self.layer.weight.detach(), dtype=ttnn.bfloat16)
        self.bias = ttnn.from_torch(self.layer.bias.detach().reshape(1, 1, 1, -1), dtype=ttnn.bfloat16)
        self.input = ttnn.from_torch(self.image.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, device=device)
        self.sizes = {
            "device": device,
            "in_channels": channels,
            "out_channels": outputs,
            "batch_size": 1,
            "input_height": height,
            "input_width": width,
            "kernel_size": (3, 3),
            "padding": (1, 1),
        }

    def __call__(self, conv_config: Any, **options: Any) -> Any:
        return ttnn.conv2d(
            input_tensor=self.input,
            weight_tensor=self.weight,
            bias_tensor=self.bias,
            conv_config=conv_config,
            slice_config=ttnn.Conv2dL1FullSliceConfig,
            **self.sizes,
            **options,
        )

    def check(self, output: Any, pcc: float = 0.999) -> None:
        reference = self.layer(self.image).detach()
        n, c, h, w = reference.shape
        assert_with_pcc(reference, ttnn.to_torch(output).float().reshape(n, h, w, c).permute(0, 3, 1, 2), pcc)


@pytest.fixture
def convolution(device: Any) -> Convolution:
    return Convolution(device, 120, 128, 32, 32)


def test_height_sharding(convolution: Convolution) -> None:
    # Height sharding configuration
    conv_config = ttnn.Conv2dConfig(
        shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
        act_block_h_override=15 * 32,  # Must be multiple of 32
    )

    # the block is as high as what one of 32 cores has: on 64 cores it would be too high
    conv_config.core_grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 3))])
    conv_config.override_sharding_config = True
    output = convolution(conv_config)
    assert output.memory_config().memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    convolution.check(output)


def test_width_sharding(device: Any) -> None:
    # Width sharding for channel-heavy tensors
    conv_config = ttnn.Conv2dConfig(
        shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED,
    )

    convolution = Convolution(device, 8, 8, 256, 256)
    output = convolution(conv_config)
    assert output.memory_config().memory_layout == ttnn.TensorMemoryLayout.WIDTH_SHARDED
    convolution.check(output)


def test_block_sharding(device: Any) -> None:
    conv_config = ttnn.Conv2dConfig(
        shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED,
    )

    convolution = Convolution(device, 16, 16, 128, 128)
    output = convolution(conv_config)
    assert output.memory_config().memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
    convolution.check(output)


def test_activation_block_tuning(device: Any, capsys: pytest.CaptureFixture[str]) -> None:
    convolution = Convolution(device, 480, 320, 64, 64)
    input, weight, sizes = convolution.input, convolution.weight, convolution.sizes
    tried = []

    # Start small, increase until L1 runs out
    act_block_h_values = [32, 64, 128, 256, 480, 640]

    for act_block_h in act_block_h_values:
        tried.append(act_block_h)
        try:
            conv_config = ttnn.Conv2dConfig(
                act_block_h_override=act_block_h,
                enable_act_double_buffer=True,
                enable_weights_double_buffer=True,
                shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            )
            with pytest.warns(DeprecationWarning, match=r"ttnn.conv2d\(config=\)"):
                output = ttnn.conv2d(
                    input_tensor=input,
                    weight_tensor=weight,
                    config=conv_config,
                    slice_config=ttnn.Conv2dL1FullSliceConfig,
                    **sizes,
                )
            ttnn.deallocate(output)
            print(f"act_block_h={act_block_h}: OK")
        except RuntimeError as e:
            if "L1" in str(e):
                print(f"act_block_h={act_block_h}: Out of L1")
                break

    said = capsys.readouterr().out.splitlines()
    assert said[0] == "act_block_h=32: OK"
    assert said[-1] == f"act_block_h={tried[-1]}: Out of L1" and len(tried) > 2


def test_double_buffering(convolution: Convolution) -> None:
    conv_config = ttnn.Conv2dConfig(
        enable_act_double_buffer=True,  # Double buffer activations
        enable_weights_double_buffer=True,  # Double buffer weights
    )

    convolution.check(convolution(conv_config))


def test_batch_norm_folding(device: Any) -> None:
    conv_layer, bn_layer = torch.nn.Conv2d(16, 32, 3, padding=1), torch.nn.BatchNorm2d(32)
    for values in (bn_layer.weight, bn_layer.bias, bn_layer.running_mean, bn_layer.running_var):
        torch.nn.init.uniform_(values, 0.5, 1.5)

    # Fold BN into preceding Conv
    conv_weight, conv_bias = fold_batch_norm2d_into_conv2d(
        conv_layer,  # nn.Conv2d
        bn_layer,  # nn.BatchNorm2d
    )

    # Convert to TTNN tensors
    weight = ttnn.from_torch(conv_weight, dtype=ttnn.bfloat8_b)
    bias = ttnn.from_torch(
        conv_bias.reshape(1, 1, 1, -1),  # Reshape for TTNN format
        dtype=ttnn.bfloat16,
    )

    assert_with_pcc(conv_weight, ttnn.to_torch(weight), 0.9999)
    # TT-NN's conv2d takes host weights in rows only, and makes them bfloat8_b itself; block formats are tiles
    weight = ttnn.from_torch(conv_weight, dtype=ttnn.bfloat16)
    image = torch.randn(1, 16, 16, 16).bfloat16().float()
    configuration = Conv2dConfiguration(
        16, 16, 16, 32, 1, (3, 3), weight, padding=(1, 1), bias=bias, weights_dtype=ttnn.bfloat8_b
    )
    x = ttnn.from_torch(image.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, device=device)
    output = ttnn.to_torch(TtConv2d(configuration, device)(x)).float()
    reference = bn_layer.eval()(conv_layer(image)).detach()
    assert_with_pcc(reference, output.reshape(1, 16, 16, 32).permute(0, 3, 1, 2), 0.999)


def test_weights_in_bfloat8_b() -> None:
    torch_weight = torch.randn(32, 64)

    # Use bfloat8_b for weights (2x memory reduction)
    weight = ttnn.from_torch(
        torch_weight,
        dtype=ttnn.bfloat8_b,
        layout=ttnn.TILE_LAYOUT,
    )

    assert weight.dtype == ttnn.bfloat8_b and weight.layout == ttnn.TILE_LAYOUT
    assert_with_pcc(torch_weight, ttnn.to_torch(weight), 0.9999)


@pytest.mark.parametrize("dtype", ["bfloat16", "bfloat8_b"])
def test_activations(device: Any, dtype: str) -> None:
    """First and last layers in bfloat16, those between in bfloat8_b."""
    activation_dtype = getattr(ttnn, dtype)

    configuration = Conv2dConfiguration.with_random_weights(
        16, 16, 32, 32, 1, (3, 3), padding=(1, 1), activation_dtype=activation_dtype, output_dtype=activation_dtype
    )
    image = torch.randn(1, 32, 16, 16).bfloat16().float()
    rows = image.permute(0, 2, 3, 1).reshape(1, 1, -1, 32)
    x = ttnn.from_torch(rows, dtype=activation_dtype, layout=ttnn.TILE_LAYOUT, device=device)
    output = TtConv2d(configuration, device)(x)
    assert output.dtype == activation_dtype
    weight, bias = ttnn.to_torch(configuration.weight), ttnn.to_torch(configuration.bias).flatten()
    reference = F.conv2d(image, weight, bias, padding=1)
    assert_with_pcc(reference, ttnn.to_torch(output).float().reshape(1, 16, 16, 32).permute(0, 3, 1, 2), 0.999)


def test_mixed_precision_strategy() -> None:
    """TT-NN's Conv2dConfig has no dtypes of input and output any more: the old names are taken with a warning."""
    with pytest.warns(DeprecationWarning, match=r"Conv2dConfig\((activation|output)_dtype=\)") as warned:
        # First layer: full precision activations
        encoder1_config = Conv2dConfig(
            activation_dtype=ttnn.bfloat16,
            weights_dtype=ttnn.bfloat8_b,
            output_dtype=ttnn.bfloat16,
        )

        # Intermediate layers: lower precision
        encoder2_config = Conv2dConfig(
            activation_dtype=ttnn.bfloat8_b,
            weights_dtype=ttnn.bfloat8_b,
            output_dtype=ttnn.bfloat8_b,
        )

        # Final layer: higher precision output
        final_config = Conv2dConfig(
            activation_dtype=ttnn.bfloat8_b,
            weights_dtype=ttnn.bfloat8_b,
            output_dtype=ttnn.bfloat16,
        )

    assert len(warned) == 6
    assert all(c.weights_dtype == ttnn.bfloat8_b for c in (encoder1_config, encoder2_config, final_config))


def test_input_format_conversion(device: Any) -> None:
    configuration = Conv2dConfiguration.with_random_weights(
        32, 32, 8, 32, 1, (3, 3), padding=(1, 1), sharding_strategy=HeightShardedStrategyConfiguration()
    )
    conv = TtConv2d(configuration, device)
    image = torch.randn(1, 8, 32, 32).bfloat16().float()
    place = ttnn.create_sharded_memory_config(
        (8, 1024 // 32),
        core_grid=ttnn.CoreGrid(x=8, y=4),
        strategy=ttnn.ShardStrategy.WIDTH,
        use_height_and_width_as_shard_shape=True,
    )
    input_tensor = ttnn.from_torch(
        image.reshape(1, 1, 8, 1024), dtype=ttnn.bfloat16, device=device, memory_config=place
    )

    # Convert from PyTorch NCHW to TTNN NHWC
    input_hwc = ttnn.experimental.convert_to_hwc(input_tensor)

    # Run convolution
    output = conv(input_hwc)

    # Convert back to NCHW for PyTorch compatibility
    output_chw = ttnn.experimental.convert_to_chw(output, dtype=ttnn.bfloat16)

    weight, bias = ttnn.to_torch(configuration.weight), ttnn.to_torch(configuration.bias).flatten()
    reference = F.conv2d(image, weight, bias, padding=1)
    assert_with_pcc(reference, ttnn.to_torch(output_chw).float().reshape(1, 32, 32, 32), 0.999)


def reshards(device: Any, *configs: Any) -> int:
    """How many times the sharding changes between three convolutions in a row."""
    convolutions = [Convolution(device, 16, 16, 64, 64) for _ in configs]
    with device.record_commands() as commands:
        x = convolutions[0].input
        for convolution, config in zip(convolutions, configs, strict=True):
            convolution.input = x
            config.reshard_if_not_optimal = True
            x = convolution(config)
    return sum(step.step.op == "Reshard" for command in commands for step in command.steps)


def test_reshard_minimization(device: Any) -> None:
    # Good: All convolutions use same sharding strategy
    layer1_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    layer2_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    layer3_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    good = reshards(device, layer1_config, layer2_config, layer3_config)

    # Bad: Frequent sharding changes (causes reshards)
    layer1_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED)
    layer2_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.WIDTH_SHARDED)  # Reshard
    layer3_config = Conv2dConfig(shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED)  # Reshard
    bad = reshards(device, layer1_config, layer2_config, layer3_config)

    assert (good, bad) == (0, 2)


def test_the_builder(device: Any) -> None:
    torch_input = torch.randn(1, 16, 224, 224).bfloat16().float()
    ttnn_input = ttnn.from_torch(torch_input.permute(0, 2, 3, 1), dtype=ttnn.bfloat16, device=device)

    # Create configuration from PyTorch layer
    torch_conv = torch.nn.Conv2d(16, 32, kernel_size=3, padding=1)
    config = Conv2dConfiguration.from_torch(
        torch_layer=torch_conv,
        input_height=224,
        input_width=224,
        batch_size=1,
        sharding_strategy=HeightShardedStrategyConfiguration(
            act_block_h_override=64,
        ),
    )

    # Instantiate and execute
    layer = TtConv2d(config, device)
    output = layer(ttnn_input)

    reference = torch_conv(torch_input).detach()
    assert_with_pcc(reference, ttnn.to_torch(output).float().reshape(1, 224, 224, 32).permute(0, 3, 1, 2), 0.999)


def test_performance_profiling(device: Any, capsys: pytest.CaptureFixture[str]) -> None:
    conv = TtConv2d(Conv2dConfiguration.with_random_weights(8, 8, 16, 16, 1, (3, 3)), device)
    input = ttnn.from_torch(torch.randn(1, 8, 8, 16), dtype=ttnn.bfloat16, device=device)

    import time

    # Warmup
    for _ in range(3):
        output = conv(input)
    ttnn.synchronize_device(device)

    # Measure
    start = time.perf_counter()
    for _ in range(100):
        output = conv(input)
    ttnn.synchronize_device(device)
    end = time.perf_counter()

    avg_time = (end - start) / 100
    print(f"Average conv time: {avg_time * 1000:.2f} ms")

    assert output.shape == (1, 1, 36, 16)
    assert capsys.readouterr().out.startswith("Average conv time: ")


def test_the_imports_as_they_stand() -> None:
    from tt_cnn import compat

    compat.install(everything=True)
    try:
        namespace: dict[str, Any] = {}
        exec(
            "import ttnn\n"
            "from ttnn.model_preprocessing import fold_batch_norm2d_into_conv2d\n"
            "from models.tt_cnn.tt.builder import (\n"
            "    Conv2dConfiguration,\n"
            "    TtConv2d,\n"
            "    HeightShardedStrategyConfiguration\n"
            ")\n",
            namespace,
        )
    finally:
        compat.uninstall()
    assert namespace["TtConv2d"] is TtConv2d and namespace["ttnn"] is virtual
