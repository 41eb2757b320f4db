# SPDX-License-Identifier: Apache-2.0
"""What upsampling computes: against torch, for whole and broken factors, and in shards."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.virtual.ops.image_cards import NUMERICS, card, image, in_use, pcc, put
from tt_cnn.virtual import ttnn

ROWS, TILES = ttnn.ROW_MAJOR_LAYOUT, ttnn.TILE_LAYOUT


def expected(x: torch.Tensor, factor: Any, mode: str) -> torch.Tensor:
    options = {"align_corners": False} if mode == "bilinear" else {}
    return F.interpolate(x.permute(0, 3, 1, 2), scale_factor=factor, mode=mode, **options).permute(0, 2, 3, 1)


@settings(max_examples=40, deadline=None)
@given(
    size=st.tuples(st.integers(1, 2), st.integers(1, 12), st.integers(1, 12), st.sampled_from([8, 32, 64])),
    factor=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    numerics=st.sampled_from(NUMERICS),
)
def test_nearest_repeats_pixels(size: tuple[int, ...], factor: tuple[int, int], numerics: str) -> None:
    x = image(*size)
    with card(numerics) as device:
        found = ttnn.upsample(put(device, x, layout=ROWS), list(factor))
        assert torch.equal(ttnn.to_torch(found).float(), expected(x, factor, "nearest"))


@pytest.mark.parametrize("factor", [(2, 2), (3, 1), (1, 4)])
def test_tiles_become_rows(factor: tuple[int, int]) -> None:
    x = image(2, 4, 32, 64)
    with card() as device:
        found = ttnn.upsample(put(device, x, layout=TILES), list(factor))
        assert found.layout == ROWS
        assert torch.equal(ttnn.to_torch(found).float(), expected(x, factor, "nearest"))


@pytest.mark.parametrize("factor", [1.5, 2.5, 0.5])
def test_nearest_takes_broken_factors(factor: float) -> None:
    x = image(1, 8, 8, 32)
    with card() as device:
        found = ttnn.upsample(put(device, x, layout=ROWS), factor)
        assert torch.equal(ttnn.to_torch(found).float(), expected(x, factor, "nearest"))


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize(
    ("size", "factor"), [((1, 8, 8, 32), 2), ((2, 8, 6, 64), 3), ((1, 16, 16, 32), 4), ((1, 7, 9, 32), 2)]
)
def test_bilinear_is_that_of_torch(size: tuple[int, ...], factor: int, numerics: str) -> None:
    x = image(*size)
    with card(numerics) as device:
        found = ttnn.to_torch(ttnn.upsample(put(device, x, layout=ROWS), factor, mode="bilinear")).float()
        assert found.shape == expected(x, factor, "bilinear").shape
        assert pcc(found, expected(x, factor, "bilinear")) > 0.999


def test_shards_stay_where_they_are() -> None:
    x = image(1, 16, 16, 32)
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(7, 0))])
    spec = ttnn.ShardSpec(grid, [32, 32], ttnn.ShardOrientation.ROW_MAJOR)
    config = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
    with card() as device:
        start = in_use(device)
        source = put(device, x, layout=ROWS, memory_config=config)
        found = ttnn.upsample(source, 2)
        assert list(found.memory_config().shard_spec.shape) == [128, 32]
        assert torch.equal(ttnn.to_torch(found).float(), expected(x, 2, "nearest"))
        ttnn.deallocate(found)
        ttnn.deallocate(source)
        assert in_use(device) == start


def test_wrong_calls_are_refused() -> None:
    with card() as device:
        x = put(device, image(1, 8, 8, 32), layout=ROWS)
        start = in_use(device)
        with pytest.raises(RuntimeError):
            ttnn.upsample(x, 2, mode="bicubic")
        with pytest.raises(TypeError, match="scale_factor"):
            ttnn.upsample(x, [2, 2, 2])
        with pytest.raises(RuntimeError, match="index out of range"):
            ttnn.upsample(put(device, image(8, 32), layout=ROWS), 2)
        assert in_use(device)[0] == start[0]
