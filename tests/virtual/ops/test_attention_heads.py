# SPDX-License-Identifier: Apache-2.0
"""Heads taken apart and scores of attention made probabilities: values beside PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice


@pytest.fixture(params=["device", "exact", "native"])
def device(request: pytest.FixtureRequest) -> Iterator[MeshDevice]:
    opened = ttnn.open_device(device_id=0, numerics=request.param)
    yield opened
    ttnn.close_device(opened)


def put(device: MeshDevice, value: torch.Tensor, dtype: Any = ttnn.bfloat16, memory: Any = None) -> Any:
    memory = memory or ttnn.DRAM_MEMORY_CONFIG
    return ttnn.from_torch(value, dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=memory)


def assert_heads(found: tuple[Any, ...], *expected: torch.Tensor) -> None:
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(ttnn.to_torch(one), other)


def in_blocks(rows: int, width: int, x: int, y: int) -> Any:
    grid = ttnn.CoreGrid(x=x, y=y)
    return ttnn.create_sharded_memory_config(
        (rows, width), grid, ttnn.ShardStrategy.BLOCK, use_height_and_width_as_shard_shape=True
    )


@pytest.mark.parametrize("turned", [True, False])
def test_heads_of_a_tensor_with_all_of_them(card: MeshDevice, turned: bool) -> None:
    x = torch.randn(2, 50, 3 * 4 * 64).bfloat16()
    q, k, v = (part.reshape(2, 50, 4, 64).transpose(1, 2) for part in x.chunk(3, -1))
    k = k.transpose(2, 3) if turned else k
    split = ttnn.transformer.split_query_key_value_and_split_heads
    create = ttnn.experimental.nlp_create_qkv_heads
    assert_heads(split(put(card, x), num_heads=4, transpose_key=turned), q, k, v)
    assert_heads(split(put(card, x[..., :256]), put(card, x[..., 256:]), num_heads=4, transpose_key=turned), q, k, v)
    assert_heads(create(put(card, x[:, None]), num_heads=4, transpose_k_heads=turned), q, k, v)


def test_queries_may_share_keys(card: MeshDevice) -> None:
    x = torch.randn(1, 1, 32, 6 * 32 + 2 * 2 * 32).bfloat16()
    q, k, v = x[0, 0].reshape(32, -1, 32).transpose(0, 1)[None].split([6, 2, 2], 1)
    found = ttnn.experimental.nlp_create_qkv_heads(put(card, x), num_heads=6, num_kv_heads=2, transpose_k_heads=False)
    assert_heads(found, q, k, v)


def test_heads_in_shards_are_interleaved(card: MeshDevice) -> None:
    x = torch.randn(2, 64, 4 * 3 * 64).bfloat16()
    q, k, v = (x.reshape(2, 64, 4, 3, 64)[:, :, :, i].transpose(1, 2) for i in range(3))
    found = ttnn.transformer.split_query_key_value_and_split_heads(
        put(card, x, memory=in_blocks(64, 192, 4, 2)), num_heads=4, memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG
    )
    assert_heads(found, q, k.transpose(2, 3), v)


def test_segformer_takes_heads_out_of_shards(card: MeshDevice) -> None:
    x = torch.randn(1, 1, 256, 64).bfloat16()
    heads = x[0, 0].reshape(256, 2, 32).transpose(0, 1)[None]
    found = ttnn.experimental.nlp_create_qkv_heads_segformer(
        put(card, x, memory=in_blocks(64, 32, 2, 4)), memory_config=ttnn.L1_MEMORY_CONFIG
    )
    assert_heads(found, heads, heads, heads)


@pytest.mark.parametrize(("dtype", "tolerance"), [(ttnn.bfloat16, 0.02), (ttnn.float32, 0.01), (ttnn.bfloat8_b, 0.06)])
def test_masked_probabilities(device: MeshDevice, dtype: Any, tolerance: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(2, 4, 50, 70, generator=generator)
    mask = torch.where(torch.rand(2, 1, 1, 70, generator=generator) > 0.3, 0.0, -1e4)
    expected = torch.softmax(x / 8 + mask, -1)
    scores, added = put(device, x, dtype), put(device, mask, dtype)
    fresh = ttnn.transformer.attention_softmax(scores, head_size=64, attention_mask=added)
    assert ttnn.transformer.attention_softmax_(scores, head_size=64, attention_mask=added) is scores
    for found in (fresh, scores):
        assert (ttnn.to_torch(found).float() - expected).abs().max() < tolerance
    plain = ttnn.transformer.attention_softmax(put(device, x, dtype), head_size=64)
    assert (ttnn.to_torch(plain).float() - torch.softmax(x / 8, -1)).abs().max() < tolerance


def test_a_causal_mask_has_a_row_for_each(device: MeshDevice) -> None:
    x = torch.randn(1, 2, 64, 64)
    mask = torch.full((64, 64), -1e4).triu(1)[None, None]
    scores = put(device, x)
    ttnn.transformer.attention_softmax_(scores, head_size=64, attention_mask=put(device, mask), causal_mask=True)
    assert (ttnn.to_torch(scores).float() - torch.softmax(x / 8 + mask, -1)).abs().max() < 0.02
