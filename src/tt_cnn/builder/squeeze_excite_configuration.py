# SPDX-License-Identifier: Apache-2.0
"""The configuration of a squeeze and excitation: channels weighed by what the whole image has of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import IN_PLACE_RULES
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.rules import Rule, instance, whole
from tt_cnn.builder.torch_activations import activation_from_torch
from tt_cnn.builder.weights import to_host_tensors


@dataclass(frozen=True, eq=False)
class SqueezeExciteConfiguration(Configuration):
    reduce: LinearConfiguration
    """Of the mean over the pixels, with the activation after it. A 1x1 convolution of a 1x1 image is a product."""
    expand: LinearConfiguration
    """Back to all channels, with the gate (a sigmoid, say) as its activation."""
    batch_size: int = 1
    output_dtype: Any = None
    """None: as the input has it. An output in place always is."""
    in_place: bool = False
    """Whether the output takes the place of the input."""
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False
    """Whether the input is given back; one whose place was taken is not."""

    rules = (
        instance("reduce", LinearConfiguration),
        instance("expand", LinearConfiguration),
        Rule(
            "expand",
            lambda c: c.expand.in_features == c.reduce.out_features,
            lambda c: f"for {c.reduce.out_features} features, which reduce gives",
        ),
        Rule(
            "expand",
            lambda c: c.expand.out_features == c.reduce.in_features,
            lambda c: f"to {c.reduce.in_features} features, which reduce takes",
        ),
        whole("batch_size"),
        instance("output_dtype", None, ttnn.DataType),
        *IN_PLACE_RULES,
        Rule("in_place", lambda c: not c.in_place or c.output_dtype is None, "False with an output_dtype"),
    )

    @classmethod
    def from_torch(
        cls,
        reduce: torch.nn.Conv2d | torch.nn.Linear,
        expand: torch.nn.Conv2d | torch.nn.Linear,
        activation: torch.nn.Module | None,
        gate: torch.nn.Module | None,
        batch_size: int = 1,
        linear_settings: dict[str, Any] | None = None,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> SqueezeExciteConfiguration:
        """The same block; `linear_settings` are for both products, all else is from `settings`.

        The products are on a grid of cores, with their activations in them, and leave few values in L1.
        """
        own = {"memory_config": ttnn.L1_MEMORY_CONFIG, "core_grid": ttnn.CoreGrid(x=8, y=8), **(linear_settings or {})}
        first, second = (
            _linear(layer, mesh_mapper, activation=activation_from_torch(after), **own)
            for layer, after in ((reduce, activation), (expand, gate))
        )
        return cls(first, second, batch_size, **settings)


def _linear(layer: Any, mesh_mapper: Any, **settings: Any) -> LinearConfiguration:
    if isinstance(layer, torch.nn.Linear):
        return LinearConfiguration.from_torch(layer, mesh_mapper, **settings)
    if not isinstance(layer, torch.nn.Conv2d) or layer.kernel_size != (1, 1) or layer.groups != 1:
        raise ValueError(f"the layer is {layer}; it must be a nn.Linear, or a nn.Conv2d of 1x1 in one group.")
    matrix = layer.weight.reshape(layer.out_channels, layer.in_channels).T.contiguous()
    weight, bias = to_host_tensors(matrix, layer.bias, mesh_mapper)
    return LinearConfiguration(layer.in_channels, layer.out_channels, weight, bias, **settings)
