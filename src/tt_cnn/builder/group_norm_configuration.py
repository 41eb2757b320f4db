# SPDX-License-Identifier: Apache-2.0
"""The configuration of a group norm of flattened pixels."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.constants import host_row, row_rule
from tt_cnn.builder.rules import Rule, check, flags, instance, wholes


@dataclass(frozen=True, eq=False)
class GroupNormConfiguration(Configuration):
    """The channels of a group, over all pixels of an image, with a mean of 0 and a variance of 1; scaled, shifted."""

    channels: int
    groups: int
    weight: Any = field(default=None, repr=False)
    """(1, 1, 1, channels), or None."""
    bias: Any = field(default=None, repr=False)
    """(1, 1, 1, channels), or None."""
    epsilon: float = 1e-5
    batch_size: int = 1
    activation: Any = None
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False

    tensors = ("weight", "bias")
    rules = (
        *wholes("channels", "groups", "batch_size"),
        Rule("groups", lambda c: c.channels % c.groups == 0, lambda c: f"a divisor of channels ({c.channels})"),
        Rule("epsilon", lambda c: isinstance(c.epsilon, float) and c.epsilon >= 0, "a number, at least 0"),
        instance("activation", None, ttnn.UnaryWithParam, ttnn.UnaryOpType),
        NUMBERS_RULE,
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, (row_rule("weight", "channels", optional=True), row_rule("bias", "channels", optional=True)))

    @classmethod
    def from_torch(
        cls, torch_layer: torch.nn.GroupNorm, batch_size: int = 1, mesh_mapper: Any = None, **settings: Any
    ) -> GroupNormConfiguration:
        """The same layer: weights from PyTorch's, all else from `settings`."""
        given = (torch_layer.weight, torch_layer.bias)
        weight, bias = (None if values is None else host_row(values, mesh_mapper) for values in given)
        sizes = torch_layer.num_channels, torch_layer.num_groups
        return cls(*sizes, weight, bias, float(torch_layer.eps), batch_size, **settings)
