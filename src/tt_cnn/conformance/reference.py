# SPDX-License-Identifier: Apache-2.0
"""What torch computes in float32 for a recorded call: the truth that errors are measured against."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

Options = dict[str, Any]
Tensors = list[torch.Tensor]

UNARY: dict[str, Callable[..., torch.Tensor]] = {
    "abs": torch.abs,
    "exp": torch.exp,
    "gelu": F.gelu,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": F.leaky_relu,
    "log": torch.log,
    "mish": F.mish,
    "neg": torch.neg,
    "reciprocal": torch.reciprocal,
    "relu": F.relu,
    "relu6": F.relu6,
    "rsqrt": torch.rsqrt,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "softplus": F.softplus,
    "sqrt": torch.sqrt,
    "square": torch.square,
    "tanh": torch.tanh,
}
_BINARY: dict[str, Callable[..., torch.Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
}


def unary(name: str) -> Callable[..., torch.Tensor]:
    """torch's function of that name; ops beyond the table are looked up in torch itself."""
    function = UNARY.get(name) or getattr(torch, name, None) or getattr(F, name)
    return function


def activated(x: torch.Tensor, name: str | None) -> torch.Tensor:
    return unary(name)(x) if name else x


def _nchw(x: torch.Tensor) -> torch.Tensor:
    return x.permute(0, 3, 1, 2)


def flattened(x: torch.Tensor) -> torch.Tensor:
    """NCHW to TT-NN's (1, 1, n*h*w, c)."""
    return x.permute(0, 2, 3, 1).reshape(1, 1, -1, x.shape[1])


def _image(x: torch.Tensor, a: Options) -> torch.Tensor:
    return _nchw(x.reshape(a["n"], a["h"], a["w"], -1))


def _conv2d(inputs: Tensors, a: Options) -> torch.Tensor:
    x, weight, bias = inputs
    y = F.conv2d(_image(x, a), weight, bias.flatten(), stride=a["s"], padding=a["p"])
    return flattened(activated(y, a["activation"]))


def _conv_transpose2d(inputs: Tensors, a: Options) -> torch.Tensor:
    x, weight, bias = inputs
    y = F.conv_transpose2d(_image(x, a), weight, bias.flatten(), stride=a["s"], padding=a["p"])
    return flattened(activated(y, a["activation"]))


def _upsample(inputs: Tensors, a: Options) -> torch.Tensor:
    return F.interpolate(_nchw(inputs[0]), scale_factor=a["scale_factor"], mode=a["mode"]).permute(0, 2, 3, 1)


REFERENCES: dict[str, Callable[[Tensors, Options], torch.Tensor]] = {
    "avg_pool2d": lambda x, a: flattened(F.avg_pool2d(_image(x[0], a), a["k"], a["s"], a["p"])),
    "binary": lambda x, a: _BINARY[a["name"]](x[0], x[1]),
    "conv2d": _conv2d,
    "conv_transpose2d": _conv_transpose2d,
    "global_avg_pool2d": lambda x, a: x[0].mean((1, 2), keepdim=True),
    "layer_norm": lambda x, a: F.layer_norm(x[0], x[0].shape[-1:], eps=1e-12),
    "matmul": lambda x, a: x[0] @ x[1],
    "max_pool2d": lambda x, a: flattened(F.max_pool2d(_image(x[0], a), a["k"], a["s"], a["p"])),
    "mean": lambda x, a: x[0].mean(-1),
    "softmax": lambda x, a: x[0].softmax(-1),
    "sum": lambda x, a: x[0].sum(-1),
    "typecast": lambda x, a: x[0],
    "unary": lambda x, a: unary(a["name"])(x[0], *a["params"]),
    "upsample": _upsample,
}
