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
    LayerNormConfiguration,
    RMSNormConfiguration,
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
