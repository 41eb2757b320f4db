# SPDX-License-Identifier: Apache-2.0
"""Torch's functional layers as modules, for `LayerFactory`: generated code names them where the model's own code calls
`F.conv2d(x, weight)` and its like."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


def conv_of(weight: torch.Tensor, bias: torch.Tensor | None, **window: Any) -> nn.Conv2d:
    """`F.conv2d(x, weight, bias, **window)`."""
    size = (weight.shape[1] * window.get("groups", 1), weight.shape[0], tuple(weight.shape[2:]))
    return _with(nn.Conv2d, size, {"bias": False, **window}, weight, bias)


def conv_transpose_of(weight: torch.Tensor, bias: torch.Tensor | None, **window: Any) -> nn.ConvTranspose2d:
    """`F.conv_transpose2d(x, weight, bias, **window)`."""
    size = (weight.shape[0], weight.shape[1] * window.get("groups", 1), tuple(weight.shape[2:]))
    return _with(nn.ConvTranspose2d, size, {"bias": False, **window}, weight, bias)


def linear_of(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """`F.linear(x, weight, bias)`."""
    return _with(nn.Linear, (weight.shape[1], weight.shape[0]), {"bias": False}, weight, bias)


def layer_norm_of(
    channels: int, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> nn.LayerNorm:
    """`F.layer_norm(x, (channels,), weight, bias, eps)`."""
    return _with(nn.LayerNorm, (channels, eps), {"elementwise_affine": False}, weight, bias)


def group_norm_of(
    groups: int,
    channels: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> nn.GroupNorm:
    """`F.group_norm(x, groups, weight, bias, eps)`; `nn.InstanceNorm2d` is one with as many groups as channels."""
    return _with(nn.GroupNorm, (groups, channels, eps), {"affine": False}, weight, bias)


def batch_norm_of(
    mean: torch.Tensor,
    variance: torch.Tensor,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> nn.BatchNorm2d:
    """`F.batch_norm(x, mean, variance, weight, bias, eps=eps)`."""
    ones, zeros = torch.ones_like(mean), torch.zeros_like(mean)
    norm = nn.BatchNorm2d(mean.numel(), eps)
    for name, values in (
        ("weight", ones if weight is None else weight),
        ("bias", zeros if bias is None else bias),
        ("running_mean", mean),
        ("running_var", variance),
    ):
        getattr(norm, name).data = values.detach().clone()
    return norm.eval()


def prelu_of(weight: torch.Tensor) -> nn.PReLU:
    """`F.prelu(x, weight)`."""
    prelu = nn.PReLU(weight.numel())
    prelu.weight.data = weight.detach().reshape(-1)
    return prelu


def _with(kind: Any, arguments: Any, keywords: Any, weight: torch.Tensor | None, bias: torch.Tensor | None) -> Any:
    with torch.device("meta"):
        module = kind(*arguments, **keywords)
    for name, values in (("weight", weight), ("bias", bias)):
        setattr(module, name, None if values is None else nn.Parameter(values.detach(), requires_grad=False))
    return module
