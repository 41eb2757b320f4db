# SPDX-License-Identifier: Apache-2.0
"""Configurations go to JSON and come back the same."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn import ttnn
from tt_cnn.builder import (
    ActivationConfiguration,
    AttentionConfiguration,
    AutoShardedStrategyConfiguration,
    AvgPool2dConfiguration,
    BatchNorm2dConfiguration,
    BlockShardedStrategyConfiguration,
    ChannelShuffleConfiguration,
    ChannelSliceStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    GroupNormConfiguration,
    HeightShardedStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    LayerNormConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    MultiplyConfiguration,
    PixelShuffleConfiguration,
    PixelUnshuffleConfiguration,
    PReLUConfiguration,
    RMSNormConfiguration,
    ShardedStrategyConfiguration,
    UpsampleConfiguration,
    WidthShardedStrategyConfiguration,
    WidthSliceStrategyConfiguration,
    configuration_from_dict,
)

flags = st.booleans()
sizes = st.integers(1, 300)
pairs = st.tuples(st.integers(1, 3), st.integers(1, 3))
grids = st.integers(1, 64).map(lambda n: ShardedStrategyConfiguration.get_core_grid_from_num_cores(n, 8, 8))
block_heights = st.integers(0, 20).map(lambda n: 32 * n)
layouts = st.sampled_from([ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT])
plain_dtypes = st.sampled_from([ttnn.bfloat16, ttnn.float32])
dtypes = st.sampled_from([ttnn.bfloat16, ttnn.float32, ttnn.bfloat8_b, ttnn.bfloat4_b])
fidelities = st.sampled_from([ttnn.MathFidelity.LoFi, ttnn.MathFidelity.HiFi2, ttnn.MathFidelity.HiFi4])
activations = st.one_of(
    st.none(),
    st.just(ttnn.UnaryOpType.SILU),
    st.just(ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)),
    st.floats(-4, 4, width=32).map(lambda slope: ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, slope)),
)
shardings = st.one_of(
    st.builds(AutoShardedStrategyConfiguration),
    st.builds(HeightShardedStrategyConfiguration, flags, act_block_h_override=block_heights),
    st.builds(WidthShardedStrategyConfiguration, override_core_grid=grids, act_block_w_div=sizes),
    st.builds(
        BlockShardedStrategyConfiguration,
        override_core_grid=grids,
        act_block_h_override=block_heights,
        override_output_sharding_config=flags,
    ),
)
slicings = st.one_of(
    st.none(),
    st.builds(HeightSliceStrategyConfiguration, st.integers(0, 9)),
    st.builds(WidthSliceStrategyConfiguration, st.integers(0, 9)),
    st.builds(L1FullSliceStrategyConfiguration),
    st.just(ChannelSliceStrategyConfiguration(2)),
)
whole_layer = st.sampled_from([None, L1FullSliceStrategyConfiguration(), ChannelSliceStrategyConfiguration(2)])
memory_configs = st.one_of(
    st.sampled_from([None, ttnn.L1_MEMORY_CONFIG, ttnn.DRAM_MEMORY_CONFIG]),
    st.builds(
        lambda rows: ttnn.create_sharded_memory_config(
            (1, 1, 64 * rows, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.HEIGHT
        ),
        st.integers(1, 4),
    ),
)


@st.composite
def convolutions(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from([Conv2dConfiguration, ConvTranspose2dConfiguration]))
    special = (
        {"padding_mode": draw(st.sampled_from([ttnn.PaddingMode.Zeros, ttnn.PaddingMode.Replicate]))}
        if kind is Conv2dConfiguration
        else {"mirror_kernel": draw(flags)}
    )
    return kind.with_random_weights(
        draw(st.integers(8, 300)),
        draw(st.integers(8, 300)),
        2 * draw(st.integers(1, 4)),
        draw(st.integers(1, 8)),
        draw(sizes),
        draw(pairs),
        stride=draw(pairs),
        padding=draw(st.sampled_from([(0, 0), (1, 2), (0, 1, 2, 0)])),
        dilation=draw(pairs),
        activation=draw(activations),
        activation_dtype=draw(dtypes),
        weights_dtype=draw(dtypes),
        output_dtype=draw(plain_dtypes),
        output_layout=draw(layouts),
        sharding_strategy=draw(shardings),
        slice_strategy=draw(slicings),
        math_fidelity=draw(fidelities),
        fp32_dest_acc_en=draw(flags),
        enable_act_double_buffer=draw(flags),
        **special,
    )


pools = st.one_of(
    st.builds(
        MaxPool2dConfiguration,
        st.integers(8, 99), st.integers(8, 99), sizes.map(lambda n: 2 * n), sizes, pairs, pairs,
        ceil_mode=flags, dtype=plain_dtypes, output_layout=layouts, slice_strategy=whole_layer,
        applied_shard_scheme=st.sampled_from([None, ttnn.TensorMemoryLayout.WIDTH_SHARDED]),
    ),
    st.builds(
        AvgPool2dConfiguration,
        st.integers(8, 99), st.integers(8, 99), sizes.map(lambda n: 2 * n), sizes, pairs, pairs,
        count_include_pad=flags, divisor_override=st.none() | sizes, math_fidelity=fidelities,
        slice_strategy=whole_layer,
    ),
    st.builds(
        GlobalAvgPool2dConfiguration,
        sizes, sizes, sizes, sizes, dtype=st.none() | dtypes, memory_config=memory_configs,
    ),
    st.builds(
        UpsampleConfiguration,
        sizes, sizes, sizes.map(lambda n: 64 * n), sizes, pairs,
        mode=st.sampled_from(["nearest", "bilinear"]), slice_strategy=whole_layer,
    ),
)  # fmt: skip
linears = st.builds(
    LinearConfiguration.with_random_weights,
    st.integers(1, 9),
    st.integers(1, 9),
    activation=st.sampled_from([None, "relu"]) | activations.filter(lambda a: isinstance(a, ttnn.UnaryWithParam)),
    weights_dtype=dtypes,
    memory_config=memory_configs,
    core_grid=st.none() | st.builds(lambda x, y: ttnn.CoreGrid(x=x, y=y), st.integers(1, 8), st.integers(1, 8)),
)


def through_json(configuration: Any) -> Any:
    return json.loads(json.dumps(configuration.to_dict()))


@settings(max_examples=150, deadline=None)
@given(convolutions() | linears)
def test_layers_with_weights(configuration: Any) -> None:
    tensors = {"weight": configuration.weight, "bias": configuration.bias}
    again = type(configuration).from_dict(through_json(configuration), **tensors)
    assert again == configuration and hash(again) == hash(configuration)
    assert again.to_dict() == configuration.to_dict()
    assert configuration_from_dict(through_json(configuration), **tensors) == configuration


@settings(max_examples=150, deadline=None)
@given(pools | shardings | slicings.filter(lambda s: s is not None))
def test_all_other_configurations(configuration: Any) -> None:
    again = type(configuration).from_dict(through_json(configuration))
    assert again == configuration and hash(again) == hash(configuration) and repr(again) == repr(configuration)


def test_the_form_is_readable() -> None:
    configuration = Conv2dConfiguration.with_random_weights(
        8, 8, 4, 8, 1, 3, activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, 0.5),
        sharding_strategy=HeightShardedStrategyConfiguration(act_block_h_override=64),
    )  # fmt: skip
    data = configuration.to_dict()
    assert data["kind"] == "Conv2dConfiguration" and data["has_bias"] and "weight" not in data
    assert data["weights_dtype"] == "DataType.BFLOAT16" and data["kernel_size"] == [3, 3]
    assert data["activation"] == {"activation": "LEAKY_RELU", "parameters": [0.5]}
    assert data["sharding_strategy"]["act_block_h_override"] == 64


def test_settings_that_a_file_leaves_out_are_the_defaults() -> None:
    data = {"input_height": 8, "input_width": 8, "channels": 4, "batch_size": 1, "kernel_size": 2}
    assert MaxPool2dConfiguration.from_dict(data) == MaxPool2dConfiguration(8, 8, 4, 1, (2, 2))


POOL = MaxPool2dConfiguration(8, 8, 4, 1, (2, 2)).to_dict()


@pytest.mark.parametrize(
    "data, sentence",
    [
        ({**POOL, "kind": "Pool"}, "kind is 'Pool'; it must be 'MaxPool2dConfiguration'"),
        ({**POOL, "strides": [2, 2]}, "MaxPool2dConfiguration has no setting 'strides'; it may have"),
        ({k: v for k, v in POOL.items() if k != "channels"}, "channels is missing; MaxPool2dConfiguration must be"),
        ({**POOL, "padding": [2, 2]}, "padding is (2, 2); it must be at most half of kernel_size"),
        ({**POOL, "slice_strategy": {"num_slices": 2}}, "is not the JSON form of any value"),
    ],
)  # fmt: skip
def test_files_that_do_not_describe_a_pool(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as refusal:
        MaxPool2dConfiguration.from_dict(data)
    assert sentence in str(refusal.value)


def test_a_bias_is_neither_lost_nor_made_up() -> None:
    configuration = LinearConfiguration.with_random_weights(4, 4)
    with pytest.raises(ValueError, match="bias is None; it must be the layer's bias"):
        LinearConfiguration.from_dict(configuration.to_dict(), weight=configuration.weight)
    without = LinearConfiguration(4, 4, configuration.weight)
    with pytest.raises(ValueError, match="the stored layer has no bias"):
        LinearConfiguration.from_dict(without.to_dict(), weight=configuration.weight, bias=configuration.bias)


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"kind is None; it must be one of .*MaxPool2dConfiguration"):
        configuration_from_dict({})


def test_weights_make_configurations_different() -> None:
    """Two layers of one shape are not one layer."""
    torch.manual_seed(0)
    a, b = (LinearConfiguration.with_random_weights(4, 4) for _ in range(2))
    assert a != b and a.to_dict() == b.to_dict()
    assert a != a.to_dict()


MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)
SHARDS = ttnn.create_sharded_memory_config((1, 1, 128, 64), ttnn.CoreGrid(x=2, y=1), ttnn.ShardStrategy.HEIGHT)


@pytest.mark.parametrize(
    "configuration",
    [
        ActivationConfiguration(ttnn.UnaryWithParam(ttnn.UnaryOpType.ELU, 0.5), in_place=True),
        PReLUConfiguration.from_torch(torch.nn.PReLU(8), deallocate_input=True),
        MultiplyConfiguration(2, MISH, ttnn.bfloat8_b, memory_config=SHARDS),
        BatchNorm2dConfiguration.from_torch(torch.nn.BatchNorm2d(8), activation=MISH),
        LayerNormConfiguration.from_torch(torch.nn.LayerNorm(8, bias=False), math_fidelity=ttnn.MathFidelity.HiFi2),
        RMSNormConfiguration.from_torch(torch.nn.RMSNorm(8)),
        GroupNormConfiguration.from_torch(torch.nn.GroupNorm(2, 8), 3),
        AttentionConfiguration.from_torch(2, 24, 4, torch.zeros(2, 9, 9), torch.zeros(4, 9, 9), scale=0.1),
        PixelShuffleConfiguration(8, 8, 8, 1, 2, sharding_strategy=HeightShardedStrategyConfiguration()),
        PixelUnshuffleConfiguration(8, 8, 8, 1, 2, memory_config=ttnn.L1_MEMORY_CONFIG),
        ChannelShuffleConfiguration(8, 2),
    ],
    ids=lambda configuration: type(configuration).__name__,
)
def test_further_layers(configuration: Any) -> None:
    tensors = {name: getattr(configuration, name) for name in configuration.tensors}
    again = configuration_from_dict(through_json(configuration), **tensors)
    assert again == configuration and hash(again) == hash(configuration)
