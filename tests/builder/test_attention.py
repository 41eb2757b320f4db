# SPDX-License-Identifier: Apache-2.0
"""Attention of images, of windows and across sequences, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import AttentionConfiguration, TtAttention


def reference(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, heads: int, mask: torch.Tensor | None = None, **options: Any
) -> torch.Tensor:
    """Of tokens (N, L, C)."""
    q, k, v = (one.unflatten(-1, (heads, -1)).transpose(1, 2) for one in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, mask, **options).transpose(1, 2).flatten(-2)


def random_tokens(*shape: int) -> torch.Tensor:
    return torch.randn(shape).bfloat16().float()


@pytest.mark.parametrize(
    "batch, length, heads, width",
    [
        (1, 197, 3, 64),
        (2, 49, 6, 32),
        (1, 50, 4, 24),
        (16, 49, 3, 32),
        (1, 577, 2, 64),
        (3, 64, 1, 40),
        (1, 16, 12, 64),
    ],
)
def test_of_one_tensor(
    batch: int,
    length: int,
    heads: int,
    width: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    qkv = random_tokens(batch, length, 3 * heads * width)
    given = place(qkv.reshape(1, batch, length, -1), where)
    settings = {"deallocate_input": True, "memory_config": ttnn.DRAM_MEMORY_CONFIG}
    output = TtAttention(AttentionConfiguration(heads, width, batch, **settings), device)(given)
    assert not given.is_allocated() and l1_in_use() == 0
    assert tuple(output.shape) == (1, batch, length, heads * width)
    assert_rows(reference(*qkv.chunk(3, -1), heads), output)


@pytest.mark.parametrize("windows, images", [(4, 1), (4, 2), (9, 1)])
@pytest.mark.parametrize("with_mask", [False, True])
def test_windows_with_biases_and_masks(
    windows: int, images: int, with_mask: bool, place: Callable[..., Any], device: Any
) -> None:
    """As Swin has them: a bias of the relative position, and windows that hold pixels of several places."""
    heads, width, length = 3, 32, 49
    qkv = random_tokens(images * windows, length, 3 * heads * width)
    bias = torch.randn(heads, length, length)
    regions = torch.randint(0, 2, (windows, length))
    mask = (regions[:, :, None] != regions[:, None, :]).float() * -100
    configuration = AttentionConfiguration.from_torch(heads, width, images * windows, bias, mask if with_mask else None)
    flat = place(qkv.reshape(1, 1, -1, 3 * heads * width), "l1")
    output = TtAttention(configuration, device)(flat)
    assert flat.is_allocated() and tuple(output.shape) == (1, 1, images * windows * length, heads * width)
    total = bias[None].expand(windows, -1, -1, -1) + (mask[:, None] if with_mask else 0)
    assert_rows(reference(*qkv.chunk(3, -1), heads, total.repeat(images, 1, 1, 1)), output)


def test_a_mask_of_infinities_and_a_scale(place: Callable[..., Any], device: Any) -> None:
    qkv = random_tokens(1, 64, 3 * 64)
    mask = torch.full((64, 64), -torch.inf).triu(1)
    configuration = AttentionConfiguration.from_torch(2, 32, mask=mask[None], scale=0.5)
    output = TtAttention(configuration, device)(place(qkv[None], "l1"))
    assert_rows(reference(*qkv.chunk(3, -1), 2, mask, scale=0.5), output)


@pytest.mark.parametrize("queries, keys", [(196, 196), (784, 49), (49, 196)])
@pytest.mark.parametrize("heads, width", [(1, 64), (2, 64), (4, 24)])
@pytest.mark.parametrize("joined", [True, False])
def test_of_several_tensors(
    queries: int,
    keys: int,
    heads: int,
    width: int,
    joined: bool,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    q, k, v = (random_tokens(2, length, heads * width) for length in (queries, keys, keys))
    others = [torch.cat((k, v), -1)] if joined else [k, v]
    given = [place(one[:, None], where) for one in (q, *others)]
    configuration = AttentionConfiguration(
        heads, width, 2, deallocate_input=True, memory_config=ttnn.DRAM_MEMORY_CONFIG
    )
    output = TtAttention(configuration, device)(*given)
    assert not any(one.is_allocated() for one in given) and l1_in_use() == 0
    assert tuple(output.shape) == (2, 1, queries, heads * width)
    assert_rows(reference(q, k, v, heads), output)


def test_what_does_not_fit_is_refused(place: Callable[..., Any], device: Any) -> None:
    layer = TtAttention(AttentionConfiguration(2, 32), device, name="attn")
    with pytest.raises(ValueError, match=r"must be 1 sequence\(s\) of 3 \* 2 \* 32 channels"):
        layer(place(torch.zeros(1, 1, 64, 64)))
    with pytest.raises(ValueError, match=r"bias is .*; it must be of shape \(1, 1 or 2, queries, keys\)"):
        AttentionConfiguration.from_torch(2, 32, bias=torch.zeros(3, 49, 49))
    with pytest.raises(ValueError, match=r"mask is .*; it must be of shape \(a divisor of batch_size \(6\)"):
        AttentionConfiguration.from_torch(2, 32, 6, mask=torch.zeros(4, 49, 49))
