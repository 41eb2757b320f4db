# SPDX-License-Identifier: Apache-2.0
"""The configuration of a batch norm that no convolution before it could take in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import IN_PLACE_RULES, NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.constants import host_row, row_rule
from tt_cnn.builder.rules import Rule, check, instance, whole


@dataclass(frozen=True, eq=False)
class BatchNorm2dConfiguration(Configuration):
    channels: int
    weight: Any = field(repr=False)
    """(1, 1, 1, channels): what a channel is multiplied by, its variance taken in."""
    bias: Any = field(repr=False)
    """(1, 1, 1, channels): what is added to it, its mean taken in."""
    activation: Any = None
    output_dtype: Any = None
    """None: as the input has it. An output in place always is."""
    in_place: bool = False
    """Whether the output takes the place of the input."""
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False
    """Whether the input is given back; one whose place was taken is not."""

    tensors = ("weight", "bias")
    rules = (
        whole("channels"),
        instance("activation", None, ttnn.UnaryWithParam, ttnn.UnaryOpType),
        NUMBERS_RULE,
        instance("output_dtype", None, ttnn.DataType),
        *IN_PLACE_RULES,
        Rule("in_place", lambda c: not c.in_place or c.output_dtype is None, "False with an output_dtype"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, (row_rule("weight", "channels"), row_rule("bias", "channels")))

    @classmethod
    def from_torch(
        cls, torch_layer: torch.nn.BatchNorm2d, mesh_mapper: Any = None, **settings: Any
    ) -> BatchNorm2dConfiguration:
        """The same layer as it evaluates: statistics and weights from PyTorch's, all else from `settings`."""
        mean, variance = torch_layer.running_mean, torch_layer.running_var
        if mean is None or variance is None:
            raise ValueError("torch_layer has no running statistics; it must have been made with track_running_stats.")
        scale = (variance.double() + torch_layer.eps).rsqrt()
        if torch_layer.weight is not None:
            scale = scale * torch_layer.weight.detach().double()
        shift = -mean.double() * scale
        if torch_layer.bias is not None:
            shift = shift + torch_layer.bias.detach().double()
        return cls(torch_layer.num_features, *(host_row(row, mesh_mapper) for row in (scale, shift)), **settings)
