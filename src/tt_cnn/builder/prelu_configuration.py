# SPDX-License-Identifier: Apache-2.0
"""The configuration of a ReLU with a learned slope."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn.builder.activation_configuration import IN_PLACE_RULES
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.constants import host_row, row_rule
from tt_cnn.builder.rules import check, whole


@dataclass(frozen=True, eq=False)
class PReLUConfiguration(Configuration):
    num_parameters: int
    """1, or one for each channel."""
    weight: Any = field(repr=False)
    """(1, 1, 1, num_parameters)."""
    in_place: bool = False
    """Whether the output takes the place of the input."""
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False
    """Whether the input is given back; one whose place was taken is not."""

    tensors = ("weight",)
    rules = (whole("num_parameters"), *IN_PLACE_RULES)

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, (row_rule("weight", "num_parameters"),))

    @classmethod
    def from_torch(cls, torch_layer: torch.nn.PReLU, mesh_mapper: Any = None, **settings: Any) -> PReLUConfiguration:
        """The same layer: slopes from PyTorch's, all else from `settings`."""
        return cls(torch_layer.num_parameters, host_row(torch_layer.weight, mesh_mapper), **settings)
