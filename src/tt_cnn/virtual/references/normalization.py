# SPDX-License-Identifier: Apache-2.0
"""Normalizations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.references.registry import golden


@golden("softmax", "softmax_in_place")
def _softmax(input_tensor: Tensor, dim: int = -1, **_: Any) -> Tensor:
    return F.softmax(input_tensor.float(), dim=dim)


def _scaled(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """Weights may come as rows of a tile; only their number counts."""
    if weight is not None:
        x = x * weight.reshape(-1)[: x.shape[-1]]
    return x if bias is None else x + bias.reshape(-1)[: x.shape[-1]]


def _over_channels(normalized: Callable[[Tensor, float], Tensor]) -> Callable[..., Tensor]:
    def function(
        input_tensor: Tensor,
        *,
        epsilon: float,
        weight: Tensor | None,
        bias: Tensor | None,
        residual_input_tensor: Tensor | None,
        **_: Any,
    ) -> Tensor:
        x = input_tensor.float() if residual_input_tensor is None else input_tensor.float() + residual_input_tensor
        return _scaled(normalized(x, epsilon), weight, bias)

    return function


@golden("layer_norm")
@_over_channels
def _layer_norm(x: Tensor, epsilon: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], eps=epsilon)


@golden("rms_norm")
@_over_channels
def _rms_norm(x: Tensor, epsilon: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + epsilon)


@golden("batch_norm")
def _batch_norm(
    input: Tensor,
    *,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    training: bool = False,
    eps: float = 1e-05,
    momentum: float = 0.1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **_: Any,
) -> Tensor:
    mean, variance, scale, shift = (
        None if value is None else value.reshape(-1).clone() for value in (running_mean, running_var, weight, bias)
    )
    return F.batch_norm(input.float(), mean, variance, scale, shift, training, momentum, eps)


@golden("group_norm")
def _group_norm(
    input_tensor: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-12,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """(N, 1, HW, C). Weights as rows that are filled up for the card have more columns than there are channels."""
    if weight is not None and weight.numel() != input_tensor.shape[-1]:
        raise ValueError(f"weights of {weight.numel()} numbers for {input_tensor.shape[-1]} channels")
    x = input_tensor.float().transpose(-2, -1).flatten(1, 2)
    return _scaled(F.group_norm(x, num_groups, eps=epsilon).mT.reshape(input_tensor.shape), weight, bias)


@golden("transformer.attention_softmax", "transformer.attention_softmax_")
def _attention_softmax(
    tensor: Tensor, head_size: int | None = None, attention_mask: Tensor | None = None, **_: Any
) -> Tensor:
    scaled = tensor if head_size is None else tensor * head_size**-0.5
    return torch.softmax(scaled if attention_mask is None else scaled + attention_mask, -1)
