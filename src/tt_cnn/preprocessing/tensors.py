# SPDX-License-Identifier: Apache-2.0
"""Single parameters from torch to TT-NN, each in the shape and layout that its op takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn

DTYPES = {
    torch.uint8: ttnn.uint8,
    torch.int8: ttnn.int8,
    torch.int16: ttnn.uint16,
    torch.int32: ttnn.int32,
    torch.int64: ttnn.uint32,
    torch.bfloat16: ttnn.bfloat16,
    torch.float16: ttnn.bfloat16,
    torch.float32: ttnn.bfloat16,
    torch.float64: ttnn.bfloat16,
}
"""What a parameter becomes where nothing else is asked for."""


def preprocess_linear_weight(
    weight: torch.Tensor, *, dtype: Any, layout: Any = ttnn.TILE_LAYOUT, weights_mesh_mapper: Any = None
) -> Any:
    """(out, in) as torch has it becomes (in, out)."""
    turned = weight.detach().T.contiguous()
    return ttnn.from_torch(turned, dtype=dtype, layout=layout, mesh_mapper=weights_mesh_mapper)


def preprocess_linear_bias(
    bias: torch.Tensor, *, dtype: Any, layout: Any = ttnn.TILE_LAYOUT, weights_mesh_mapper: Any = None
) -> Any:
    row = bias.detach().reshape(1, -1)
    return ttnn.from_torch(row, dtype=dtype, layout=layout, mesh_mapper=weights_mesh_mapper)


def preprocess_layernorm_parameter(parameter: torch.Tensor, *, dtype: Any, layout: Any = ttnn.TILE_LAYOUT) -> Any:
    return ttnn.from_torch(parameter.detach().reshape(1, -1), dtype=dtype, layout=layout)


def preprocess_embedding_weight(weight: torch.Tensor, *, dtype: Any) -> Any:
    return ttnn.from_torch(weight.detach(), dtype=dtype)


def preprocess_conv_bias(bias: torch.Tensor, *, dtype: Any, layout: Any = None, weights_mesh_mapper: Any = None) -> Any:
    """(channels,) becomes (1, 1, 1, channels), the shape that TT-NN's convolutions take."""
    row = bias.detach().reshape(1, 1, 1, -1)
    return ttnn.from_torch(row, dtype=dtype, layout=layout, mesh_mapper=weights_mesh_mapper)


@dataclass(frozen=True)
class Conversion:
    """What the user asked of all parameters: a dtype for those with fractions, a layout, a mapper to the mesh."""

    dtype: Any = None
    layout: Any = None
    mesh_mapper: Any = None

    def tensor(self, value: torch.Tensor, layout: Any = None) -> Any:
        """A parameter in its own shape; `layout` is the op's own, for where the user asked for none."""
        if value.dtype not in DTYPES:
            raise TypeError(f"a parameter has dtype {value.dtype}, which no TT-NN dtype holds")
        value = value.detach()
        if value.dtype == torch.float64:
            value = value.float()  # TT-NN takes no float64
        chosen = self.dtype if value.is_floating_point() and self.dtype is not None else DTYPES[value.dtype]
        asked = self.layout if self.layout is not None else layout
        return ttnn.from_torch(value, dtype=chosen, layout=asked, mesh_mapper=self.mesh_mapper)

    def convolution(self, weight: torch.Tensor, bias: torch.Tensor | None) -> dict[str, Any]:
        found = {"weight": self.tensor(weight)}
        if bias is not None:
            found["bias"] = self.tensor(bias.detach().reshape(1, 1, 1, -1))
        return found

    def module(self, module: nn.Module) -> dict[str, Any]:
        """The parameters of a module itself, children aside."""
        own = {name: value for name, value in module.named_parameters(recurse=False)}
        if isinstance(module, nn.Linear):
            return {
                name: self.tensor(value.T.contiguous() if name == "weight" else value.reshape(1, -1), ttnn.TILE_LAYOUT)
                for name, value in own.items()
            }
        if isinstance(module, nn.LayerNorm):
            return {name: self.tensor(value.reshape(1, -1), ttnn.TILE_LAYOUT) for name, value in own.items()}
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            return self.convolution(module.weight, module.bias)
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None and module.running_var is not None:
            own |= {"running_mean": module.running_mean, "running_var": module.running_var}  # type: ignore[dict-item]
        return {name: self.tensor(value) for name, value in own.items()}
