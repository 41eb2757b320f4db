# SPDX-License-Identifier: Apache-2.0
"""`Conv2dConfig` and the slice configurations: fields, defaults, printed form, what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn


def test_printed_form() -> None:
    config = ttnn.Conv2dConfig(
        weights_dtype=ttnn.bfloat8_b,
        activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),
        shard_layout=ttnn.TensorMemoryLayout.BLOCK_SHARDED,
        enable_kernel_stride_folding=False,
    )
    text = repr(config)
    assert text.startswith("Conv2dConfig(weights_dtype=DataType::BFLOAT8_B,activation=")
    assert "shard_layout=TensorMemoryLayout::BLOCK_SHARDED,core_grid=std::nullopt,transpose_shards=0" in text
    assert "enable_kernel_stride_folding=0,enable_activation_reuse=0,force_split_reader=std::nullopt" in text
    assert repr(ttnn.Conv2dL1FullSliceConfig) == "Op2DSliceConfig(slice_type=SliceType::L1_FULL,num_slices=0)"


def test_fields_can_be_set_later_and_have_types() -> None:
    config = ttnn.Conv2dConfig()
    config.act_block_h_override = 64
    config.shard_layout = None
    assert config.act_block_h_override == 64
    with pytest.raises(TypeError):
        config.act_block_h_override = "64"  # type: ignore[assignment]
    with pytest.raises(TypeError):
        ttnn.Conv2dConfig(dtype=ttnn.bfloat16)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        config.input_channels_alignment = 16


def test_a_slice_configuration_needs_a_kind() -> None:
    with pytest.raises(TypeError):
        ttnn.Conv2dSliceConfig(num_slices=2)  # type: ignore[call-arg]
    one = ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dDRAMSliceHeight, num_slices=2)
    assert (one.slice_type, one.num_slices) == (ttnn.Op2DSliceConfig.SliceTypeEnum.DRAMSliceHeight, 2)


HEIGHT, BLOCK = ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.TensorMemoryLayout.BLOCK_SHARDED
BOTH = {
    # where the input is, asked layout, asked cores, kernel: cores of the output and their shards
    ("dram", HEIGHT, (8, 8), 3): ("{[0-0 - 7-7]}", [32, 64]),
    ("dram", BLOCK, (4, 4), 3): ("{[0-0 - 1-3]}", [256, 32]),
    ("l1", BLOCK, (8, 8), 3): ("{[0-0 - 1-7]}", [128, 32]),
    ("l1", None, (8, 1), 3): ("{[0-0 - 7-0]}", [128, 64]),
    ("height", HEIGHT, (8, 1), 1): ("{[0-0 - 7-0]}", [128, 64]),
    ("block", HEIGHT, (4, 4), 1): ("{[0-0 - 3-3]}", [64, 64]),
}
"""What TT-NN 0.81.1 gives for 32x32 pixels of 64 channels: the check against both being set is none of a release's."""


@pytest.mark.parametrize("place, layout, cores, kernel", BOTH)
def test_cores_that_are_given_count_also_where_ttnn_may_reshard(
    card: Any, place: str, layout: Any, cores: tuple[int, int], kernel: int
) -> None:
    grids = {"height": ((4, 4), ttnn.ShardStrategy.HEIGHT), "block": ((2, 8), ttnn.ShardStrategy.BLOCK)}
    if place in grids:
        (x, y), strategy = grids[place]
        config = ttnn.create_sharded_memory_config((1, 1, 1024, 64), ttnn.CoreGrid(x=x, y=y), strategy)
    else:
        config = ttnn.DRAM_MEMORY_CONFIG if place == "dram" else ttnn.L1_MEMORY_CONFIG
    tiles = ttnn.ROW_MAJOR_LAYOUT if place == "dram" else ttnn.TILE_LAYOUT
    values = torch.zeros(1, 1, 1024, 64)
    image = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=tiles, device=card, memory_config=config)
    end = ttnn.CoreCoord(cores[0] - 1, cores[1] - 1)
    output = ttnn.conv2d(
        input_tensor=image,
        weight_tensor=ttnn.from_torch(torch.zeros(64, 64, kernel, kernel), dtype=ttnn.bfloat16),
        in_channels=64,
        out_channels=64,
        device=card,
        kernel_size=(kernel, kernel),
        stride=(1, 1),
        padding=(kernel // 2, kernel // 2),
        batch_size=1,
        input_height=32,
        input_width=32,
        conv_config=ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat16,
            shard_layout=layout,
            reshard_if_not_optimal=True,
            override_sharding_config=True,
            core_grid=ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), end)}),
        ),
        slice_config=ttnn.Conv2dL1FullSliceConfig,
    )
    shards = output.memory_config().shard_spec
    assert shards is not None
    assert (str(shards.grid), list(shards.shape)) == BOTH[place, layout, cores, kernel]
