"""`Conv2dConfig` and the slice configurations: fields, defaults, printed form, what they refuse."""

from __future__ import annotations

import pytest

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
