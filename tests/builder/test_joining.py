# SPDX-License-Identifier: Apache-2.0
"""Sums and joins: the values are torch's wherever the parts lie, and the parts are given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.builder import AddConfiguration, ConcatConfiguration, Conv2dConfiguration, TtAdd, TtConcat, TtConv2d
from tt_cnn.builder import HeightShardedStrategyConfiguration as Height
from tt_cnn.builder import WidthShardedStrategyConfiguration as Width
from tt_cnn.builder.activations import FUSED_BY_MATMUL
from tt_cnn.virtual.ops.matmul.product import FUSED_ACTIVATIONS

RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)
DTYPES = (ttnn.bfloat8_b, ttnn.bfloat16)
ROWS = 2048


def _values(channels: int) -> torch.Tensor:
    """Small whole numbers: all formats have them."""
    return torch.randint(-2, 3, (1, 1, ROWS, channels)).float()


def _placed(values: torch.Tensor, device: Any, where: str, dtype: Any = ttnn.bfloat16) -> Any:
    channels = -(-values.shape[-1] // 32) * 32
    shards = ttnn.create_sharded_memory_config(
        (32, channels),
        core_grid=ttnn.CoreGrid(x=8, y=8),
        strategy=ttnn.ShardStrategy.HEIGHT,
        use_height_and_width_as_shard_shape=True,
    )
    config = {"shards": shards, "l1": ttnn.L1_MEMORY_CONFIG, "dram": ttnn.DRAM_MEMORY_CONFIG}[where]
    return ttnn.from_torch(values, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)


@pytest.mark.parametrize("place", ["shards", "l1", "dram"])
@pytest.mark.parametrize("beside", ["shards", "l1", "dram"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [16, 64])
def test_joined_is_torchs_concatenation(place: str, beside: str, dtype: Any, channels: int, device: Any) -> None:
    """Parts in other memories and other dtypes are brought together."""
    values = [_values(channels), _values(channels)]
    parts = [_placed(values[0], device, "shards"), _placed(values[1], device, beside, dtype)]
    together = TtConcat(ConcatConfiguration(place), device)(parts)
    assert not any(part.is_allocated() for part in parts)
    assert together.is_sharded() == (place == "shards")
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("wanted", DTYPES, ids=str)
@pytest.mark.parametrize("channels", [16, 32, 64])
def test_the_result_has_the_dtype_and_layout_that_are_asked_for(
    dtype: Any, wanted: Any, channels: int, device: Any
) -> None:
    values = [_values(channels), _values(channels)]
    parts = [_placed(values[0], device, "shards", dtype), _placed(values[1], device, "dram", ttnn.bfloat8_b)]
    configuration = ConcatConfiguration("shards", output_layout=ttnn.TILE_LAYOUT, output_dtype=wanted, reallocate=True)
    together = TtConcat(configuration, device)(parts)
    assert together.dtype == wanted and together.layout == ttnn.TILE_LAYOUT
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))


@pytest.mark.parametrize("place", ["shards", "l1", "dram"])
@pytest.mark.parametrize("channels", [16, 64])
def test_parts_that_are_kept_are_not_given_back(place: str, channels: int, device: Any) -> None:
    values = [_values(channels), _values(channels), _values(channels)]
    parts = [_placed(one, device, where) for one, where in zip(values, ("shards", "l1", "shards"), strict=True)]
    together = TtConcat(ConcatConfiguration(place), device)(parts, kept=(parts[0], parts[1]))
    assert [part.is_allocated() for part in parts] == [True, True, False]
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))
    for part, one in zip(parts[:2], values, strict=False):
        assert torch.equal(ttnn.to_torch(part).float(), one)


@pytest.mark.parametrize("place", ["shards", "l1"])
def test_a_part_may_come_twice(place: str, device: Any) -> None:
    values = _values(16)
    part = _placed(values, device, "shards")
    together = TtConcat(ConcatConfiguration(place), device)([part, part])
    assert not part.is_allocated()
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat([values, values], dim=3))


@pytest.mark.parametrize("channels", [(24, 24), (58, 58), (64, 24), (40, 24), (320, 192), (480, 40, 160)], ids=str)
@pytest.mark.parametrize("others", ["height", "block", "dram"])
def test_shards_of_any_channels_are_joined(
    channels: tuple[int, ...], where: str, others: str, place: Callable[..., Any], device: Any
) -> None:
    """What does not go together in shards is joined in L1."""
    values = [torch.randint(-2, 3, (1, 1, 98, count)).float() for count in channels]
    parts = [place(one, others if i else where) for i, one in enumerate(values)]
    together = TtConcat(ConcatConfiguration(), device)(parts)
    assert not any(part.is_allocated() for part in parts)
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))


def test_shards_are_not_joined_along_rows(device: Any) -> None:
    parts = [_placed(_values(32), device, "shards") for _ in range(2)]
    with pytest.raises(ValueError, match="must be 'l1' or 'dram' along dimension 2"):
        TtConcat(ConcatConfiguration("shards"), device)(parts, dim=2)


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("fused", [False, True])
def test_sums_are_torchs(kept: bool, in_place: bool, fused: bool, device: Any) -> None:
    x, y = _values(64), _values(64)
    summands = [_placed(x, device, "shards"), _placed(y, device, "shards")]
    configuration = AddConfiguration(RELU, fuse_activation=fused, in_place=in_place)
    total = TtAdd(configuration, device)(*summands, kept=summands[0] if kept else None)
    assert torch.equal(ttnn.to_torch(total).float(), (x + y).relu())
    assert summands[0].is_allocated() == (kept or in_place)
    assert summands[1].is_allocated() == (kept and in_place)
    if kept:
        assert torch.equal(ttnn.to_torch(summands[0]).float(), x)


@pytest.mark.parametrize("fused", [False, True])
def test_a_sum_of_summands_that_are_both_kept(fused: bool, device: Any) -> None:
    x, y = _values(64), _values(64)
    summands = [_placed(x, device, "shards"), _placed(y, device, "l1")]
    total = TtAdd(AddConfiguration(RELU, fuse_activation=fused), device)(*summands, kept=summands)
    assert total.memory_config() == summands[0].memory_config()
    for given, values in ((total, (x + y).relu()), (summands[0], x), (summands[1], y)):
        assert torch.equal(ttnn.to_torch(given).float(), values)


def test_the_activations_of_matmuls_are_the_librarys() -> None:
    assert {each.name for each in FUSED_BY_MATMUL} == {each.name for each in FUSED_ACTIVATIONS}


@pytest.mark.parametrize("strategy", [Height(), Width()], ids=["height", "width"])
@pytest.mark.parametrize(("kernel", "stride"), [(1, 1), (3, 1), (2, 2)])
@pytest.mark.parametrize("activation", [RELU, MISH], ids=["relu", "mish"])
def test_activations_come_through_however_the_convolution_runs(
    strategy: Any, kernel: int, stride: int, activation: Any, device: Any
) -> None:
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(32, 32, kernel, stride, padding=kernel // 2 if kernel == 3 else 0)
    image = torch.randn(1, 32, 16, 16)
    configuration = Conv2dConfiguration.from_torch(
        layer, 16, 16, 1, activation=activation, sharding_strategy=strategy, math_fidelity=ttnn.MathFidelity.HiFi4
    )
    tt = TtConv2d(configuration, device)
    given = ttnn.from_torch(
        image.permute(0, 2, 3, 1).reshape(1, 1, 256, 32), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device
    )
    given = ttnn.to_memory_config(given, ttnn.L1_MEMORY_CONFIG)
    as_matmul = kernel == 1 and isinstance(strategy, Height)
    assert (tt.activation_after(given) is not None) == (as_matmul and activation is MISH)
    function = torch.relu if activation is RELU else torch.nn.functional.mish
    with torch.no_grad():
        expected = function(layer(image)).permute(0, 2, 3, 1).reshape(1, 1, -1, 32)
    found = ttnn.to_torch(tt(given)).float()
    assert torch.corrcoef(torch.stack((found.flatten(), expected.flatten())))[0, 1] > 0.999


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("where", ["l1", "dram"])
@pytest.mark.parametrize("rows", [(64, 32, 20), (64, 20, 32), (32, 64), (32, 1)], ids=str)
def test_rows_in_tiles_are_joined_where_tiles_end_or_not(
    rows: tuple[int, ...], where: str, dtype: Any, device: Any
) -> None:
    values = [torch.randint(-2, 3, (1, 1, count, 80)).float() for count in rows]
    parts = [_placed(each, device, where, dtype) for each in values]
    together = TtConcat(ConcatConfiguration(where), device)(parts, dim=2)
    assert not any(part.is_allocated() for part in parts)
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=2))


@pytest.mark.parametrize("widths", [(48, 16, 12), (48, 12, 16), (8, 8), (16, 1)], ids=str)
def test_columns_in_rows_are_joined_where_words_end_or_not(widths: tuple[int, ...], device: Any) -> None:
    values = [torch.randint(-2, 3, (1, 2, 5, width)).float() for width in widths]
    parts = [
        ttnn.from_torch(each, dtype=ttnn.bfloat16, device=device, memory_config=ttnn.L1_MEMORY_CONFIG)
        for each in values
    ]
    together = TtConcat(ConcatConfiguration("l1"), device)(parts)
    assert torch.equal(ttnn.to_torch(together).float(), torch.cat(values, dim=3))
