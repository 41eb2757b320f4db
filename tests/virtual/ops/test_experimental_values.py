# SPDX-License-Identifier: Apache-2.0
"""Layouts of images and attention heads: what they compute, against torch, and what they refuse."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.virtual.ops.image_cards import NUMERICS, card, image, pcc, put
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.ops.experimental.convert_to_hwc import block_of

TILES = ttnn.TILE_LAYOUT


def sharded(kind: str, cores: int, shape: list[int]) -> ttnn.MemoryConfig:
    grid = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(cores - 1, 0))])
    spec = ttnn.ShardSpec(grid, shape, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(getattr(ttnn.TensorMemoryLayout, f"{kind}_SHARDED"), ttnn.BufferType.L1, spec)


def test_pixels_become_channels_and_back() -> None:
    x = image(1, 1, 8, 256)
    with card() as device:
        channels_first = put(device, x, layout=ttnn.ROW_MAJOR_LAYOUT, memory_config=sharded("WIDTH", 4, [8, 64]))
        pixels = ttnn.experimental.convert_to_hwc(channels_first)
        assert list(pixels.shape) == [1, 1, 256, 8]
        assert torch.equal(ttnn.to_torch(pixels).float(), x.transpose(2, 3))
        tiled = put(device, x.transpose(2, 3), layout=TILES, memory_config=sharded("HEIGHT", 4, [64, 32]))
        back = ttnn.experimental.convert_to_chw(tiled)
        assert list(back.shape) == [1, 1, 8, 256] and back.layout == ttnn.ROW_MAJOR_LAYOUT
        assert torch.equal(ttnn.to_torch(back).float(), x)


def test_channels_are_padded_to_whole_transfers() -> None:
    x = image(1, 2, 3, 128)
    with card() as device:
        source = put(device, x, layout=ttnn.ROW_MAJOR_LAYOUT, memory_config=sharded("WIDTH", 2, [6, 64]))
        found = ttnn.to_torch(ttnn.experimental.convert_to_hwc(source)).float()
        assert torch.equal(found[..., :3], x.permute(0, 1, 3, 2).reshape(1, 1, 256, 3))
        assert found.shape[-1] == 8 and not found[..., 3:].any()


def test_large_pictures_are_turned_in_blocks() -> None:
    """2560 pixels a core are two blocks of 1280: the buffers are those of the recording (hwcscan)."""
    x = image(1, 1, 3, 8 * 2560)
    with card() as device:
        source = put(device, x, layout=ttnn.ROW_MAJOR_LAYOUT, memory_config=sharded("WIDTH", 8, [3, 2560]))
        with device.record_commands() as commands:
            found = ttnn.experimental.convert_to_hwc(source)
        sizes = [one.bytes for one in commands[0].steps[0].step.buffers]
        assert sizes == [15360, 7680, 81920, 81920, 81920, 40960]
        assert torch.equal(ttnn.to_torch(found).float()[..., :3], x.transpose(2, 3))


@pytest.mark.parametrize("rows, block", [(1024, 1024), (2048, 1024), (2016, 2016), (6400, 1280), (9600, 1600)])
def test_a_block_is_the_smallest_divisor_of_at_least_1024_pixels(rows: int, block: int) -> None:
    assert block_of(rows) == block


def test_unsharded_images_are_refused() -> None:
    with card() as device:
        x = put(device, image(1, 1, 64, 8), layout=TILES)
        with pytest.raises(RuntimeError, match="must be sharded to infer"):
            ttnn.experimental.convert_to_chw(x)
        with pytest.raises(RuntimeError, match="output memory_config must be explicitly specified"):
            ttnn.experimental.convert_to_hwc(x)


def test_heads_are_taken_apart_and_put_together() -> None:
    x = image(2, 1, 64, 96)
    with card() as device:
        query, key, value = ttnn.experimental.nlp_create_qkv_heads_segformer(put(device, x, layout=TILES))
        heads = x.reshape(2, 64, 3, 32).permute(0, 2, 1, 3)
        for found in (query, key, value):
            assert torch.equal(ttnn.to_torch(found).float(), heads)
        assert torch.equal(ttnn.to_torch(ttnn.experimental.nlp_concat_heads(query)).float(), x)
        together = ttnn.transformer.concatenate_heads(query)
        assert list(together.shape) == [2, 64, 96]
        assert torch.equal(ttnn.to_torch(together).float(), x[:, 0])


@pytest.mark.parametrize("numerics", NUMERICS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_torch(numerics: str, causal: bool) -> None:
    q, k, v = (image(1, 4, 64, 32, seed=i) for i in range(3))
    with card(numerics) as device:
        given = [put(device, x, layout=TILES) for x in (q, k, v)]
        found = ttnn.transformer.scaled_dot_product_attention(*given, is_causal=causal)
        expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        assert pcc(ttnn.to_torch(found).float(), expected) > 0.999


def test_attention_takes_masks_scales_shared_keys_and_chunks() -> None:
    q, k, v, mask = image(1, 4, 64, 32), image(1, 2, 96, 32), image(1, 2, 96, 32, seed=1), image(1, 1, 64, 96)
    chunks = ttnn.SDPAProgramConfig(compute_with_storage_grid_size=(8, 8), q_chunk_size=64, k_chunk_size=32)
    with card() as device:
        given = [put(device, x, layout=TILES) for x in (q, k, v)]
        found = ttnn.transformer.scaled_dot_product_attention(
            *given, attn_mask=put(device, mask, layout=TILES), is_causal=False, scale=0.25, program_config=chunks
        )
        keys, values = (x.repeat_interleave(2, 1) for x in (k, v))
        expected = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask, scale=0.25)
        assert pcc(ttnn.to_torch(found).float(), expected) > 0.999
        with pytest.raises(RuntimeError, match="is_causal"):
            ttnn.transformer.scaled_dot_product_attention(*given, attn_mask=put(device, mask, layout=TILES))


CONCATENATED = {
    # images, heads, rows, width, cores across and down: a core's part of the result, as TT-NN 0.81.1 places it
    (8, 12, 197, 64, 6, 8): [224, 128],
    (8, 12, 224, 64, 4, 8): [224, 192],
    (2, 4, 64, 32, 2, 2): [64, 64],
    (1, 8, 64, 32, 8, 1): [64, 32],
}


@pytest.mark.parametrize("images, heads, rows, width, across, down", CONCATENATED)
def test_heads_in_shards_are_put_side_by_side(
    images: int, heads: int, rows: int, width: int, across: int, down: int
) -> None:
    x = image(images, heads, rows, width)
    padded = (images, heads, -(-rows // 32) * 32, width)
    grid, height = ttnn.CoreGrid(x=across, y=down), ttnn.ShardStrategy.HEIGHT
    expected = x.permute(0, 2, 1, 3).reshape(images, rows, -1)
    with card() as device:
        given = put(device, x, layout=TILES, memory_config=ttnn.create_sharded_memory_config(padded, grid, height))
        found = ttnn.transformer.concatenate_heads(given, memory_config=ttnn.L1_BLOCK_SHARDED_MEMORY_CONFIG)
        shards = found.memory_config().shard_spec
        assert shards is not None and list(shards.shape) == CONCATENATED[images, heads, rows, width, across, down]
        assert torch.equal(ttnn.to_torch(found).float(), expected)
        interleaved = ttnn.transformer.concatenate_heads(given, memory_config=ttnn.L1_MEMORY_CONFIG)
        assert torch.equal(ttnn.to_torch(interleaved).float(), expected)
        with pytest.raises(RuntimeError, match="Sharded input requires a sharded output memory config"):
            ttnn.experimental.nlp_concat_heads(given, memory_config=ttnn.L1_MEMORY_CONFIG)


def test_an_activation_may_be_a_pair() -> None:
    x, w = image(1, 1, 32, 32), image(1, 1, 32, 32)
    with card() as device:
        found, (left, right) = [], (put(device, each, layout=TILES) for each in (x, w))
        for fused in ((ttnn.UnaryOpType.GELU, True), ttnn.UnaryWithParam(ttnn.UnaryOpType.GELU, 1.0)):
            config = ttnn.MatmulMultiCoreReuseMultiCastProgramConfig(
                compute_with_storage_grid_size=(1, 1),
                in0_block_w=1,
                out_subblock_h=1,
                out_subblock_w=1,
                per_core_M=1,
                per_core_N=1,
                transpose_mcast=False,
                fused_activation=fused,
            )
            found.append(ttnn.to_torch(ttnn.matmul(left, right, program_config=config)))
        assert torch.equal(*found)
