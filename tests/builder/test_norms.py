# SPDX-License-Identifier: Apache-2.0
"""Layer norms, RMS norms and group norms against torch, wherever pixels and tokens are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.builder.placing import assert_rows
from tt_cnn import ttnn
from tt_cnn.builder import (
    GroupNormConfiguration,
    LayerNormConfiguration,
    RMSNormConfiguration,
    TtGroupNorm,
    TtLayerNorm,
    TtRMSNorm,
)


def randomized(norm: Any) -> Any:
    """With weights and biases of its own."""
    nn.init.uniform_(norm.weight, 0.5, 2.0)
    if getattr(norm, "bias", None) is not None:
        nn.init.normal_(norm.bias)
    return norm


@pytest.mark.parametrize("rows, channels", [(3136, 96), (197, 768), (49, 768), (98, 40), (392, 116), (196, 24)])
@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RMSNorm], ids=lambda kind: kind.__name__)
def test_norms_of_rows(
    rows: int,
    channels: int,
    kind: Any,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    torch_layer = randomized(kind(channels, eps=1e-6))
    values = (3 * torch.randn(1, 1, rows, channels) + 2).bfloat16().float()
    given = place(values, where)
    before, memory = l1_in_use(), given.memory_config()
    layer, configuration = {
        nn.LayerNorm: (TtLayerNorm, LayerNormConfiguration),
        nn.RMSNorm: (TtRMSNorm, RMSNormConfiguration),
    }[kind]
    output = layer(configuration.from_torch(torch_layer, deallocate_input=True), device)(given)
    assert output.memory_config() == memory and not given.is_allocated() and l1_in_use() == before
    assert_rows(torch_layer(values), output, 0.9995)


@pytest.mark.parametrize("shape", [(1, 3, 197, 192), (4, 1, 49, 96), (1, 2, 64, 768)], ids=str)
def test_norms_of_tokens(shape: tuple[int, ...], place: Callable[..., Any], device: Any) -> None:
    torch_layer = randomized(nn.LayerNorm(shape[-1]))
    values = torch.randn(shape).bfloat16().float()
    given = place(values, "l1")
    configuration = LayerNormConfiguration.from_torch(torch_layer, memory_config=ttnn.DRAM_MEMORY_CONFIG)
    output = TtLayerNorm(configuration, device)(given)
    assert tuple(output.shape) == shape and output.memory_config() == ttnn.DRAM_MEMORY_CONFIG and given.is_allocated()
    assert_rows(torch_layer(values), output, 0.9995)


@pytest.mark.parametrize("options", [{"bias": False}, {"elementwise_affine": False}], ids=str)
def test_norms_without_weights(options: dict[str, bool], place: Callable[..., Any], device: Any) -> None:
    torch_layer = nn.LayerNorm(64, **options)
    values = torch.randn(1, 1, 49, 64).bfloat16().float()
    output = TtLayerNorm(LayerNormConfiguration.from_torch(torch_layer), device)(place(values))
    assert_rows(torch_layer(values), output)


def test_a_norm_over_several_dimensions_is_refused() -> None:
    with pytest.raises(ValueError, match=r"normalized_shape is \(7, 64\); it must be the last dimension alone"):
        LayerNormConfiguration.from_torch(nn.LayerNorm((7, 64)))


@pytest.mark.parametrize(
    "batch, side, channels, groups",
    [
        (1, 56, 96, 32),
        (1, 56, 64, 1),
        (2, 16, 64, 4),
        (1, 32, 96, 3),
        (1, 14, 256, 32),
        (2, 7, 40, 5),
        (2, 14, 24, 1),
        (1, 7, 116, 116),
        (1, 16, 48, 16),
        (3, 8, 320, 32),
    ],
)
def test_group_norms(
    batch: int,
    side: int,
    channels: int,
    groups: int,
    where: str,
    place: Callable[..., Any],
    device: Any,
    l1_in_use: Callable[[], int],
) -> None:
    torch_layer = randomized(nn.GroupNorm(groups, channels))
    spread, middle = torch.rand(1, channels, 1, 1) + 0.5, 2 * torch.randn(1, channels, 1, 1)
    x = (torch.randn(batch, channels, side, side) * spread + middle).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, channels), where)
    before, memory = l1_in_use(), given.memory_config()
    silu = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
    configuration = GroupNormConfiguration.from_torch(torch_layer, batch, activation=silu, deallocate_input=True)
    output = TtGroupNorm(configuration, device)(given)
    assert tuple(output.shape) == (1, 1, batch * side * side, channels) and output.memory_config() == memory
    assert not given.is_allocated() and l1_in_use() == before
    assert_rows(nn.functional.silu(torch_layer(x)).permute(0, 2, 3, 1), output, 0.9995)


@pytest.mark.parametrize("groups", [4, 12])
def test_group_norms_keep_what_is_far_from_zero(groups: int, place: Callable[..., Any], device: Any) -> None:
    """A mean of many deviations is taken out before anything is squared."""
    torch_layer = nn.GroupNorm(groups, 48, affine=False)
    x = (torch.randn(1, 48, 14, 14) + 8).bfloat16().float()
    given = place(x.permute(0, 2, 3, 1).reshape(1, 1, -1, 48), "l1")
    output = TtGroupNorm(GroupNormConfiguration.from_torch(torch_layer), device)(given)
    assert_rows(torch_layer(x).permute(0, 2, 3, 1), output, 0.999)
