# SPDX-License-Identifier: Apache-2.0
"""The configurations of norms over the last dimension of pixels or tokens."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.constants import host_row, row_rule
from tt_cnn.builder.rules import Rule, check, flags, instance, whole

Self = TypeVar("Self", bound="RowNormConfiguration")


@dataclass(frozen=True, eq=False)
class RowNormConfiguration(Configuration):
    channels: int
    weight: Any = field(default=None, repr=False)
    """(1, 1, 1, channels), or None."""
    bias: Any = field(default=None, repr=False)
    """(1, 1, 1, channels), or None."""
    epsilon: float = 1e-5

    math_fidelity: Any = ttnn.MathFidelity.HiFi4
    fp32_dest_acc_en: bool = True
    packer_l1_acc: bool = False

    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False

    tensors = ("weight", "bias")
    rules = (
        whole("channels"),
        Rule("epsilon", lambda c: isinstance(c.epsilon, float) and c.epsilon >= 0, "a number, at least 0"),
        instance("math_fidelity", ttnn.MathFidelity),
        *flags("fp32_dest_acc_en", "packer_l1_acc", "deallocate_input"),
        instance("memory_config", None, ttnn.MemoryConfig),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self, (row_rule("weight", "channels", optional=True), row_rule("bias", "channels", optional=True)))

    @classmethod
    def from_torch(cls: type[Self], torch_layer: Any, mesh_mapper: Any = None, **settings: Any) -> Self:
        """The same layer: weights from PyTorch's, all else from `settings`."""
        shape = tuple(torch_layer.normalized_shape)
        if len(shape) != 1:
            raise ValueError(f"torch_layer.normalized_shape is {shape}; it must be the last dimension alone.")
        epsilon = torch.finfo(torch.float32).eps if torch_layer.eps is None else torch_layer.eps
        weights = (getattr(torch_layer, name, None) for name in ("weight", "bias"))
        weight, bias = (None if values is None else host_row(values, mesh_mapper) for values in weights)
        return cls(shape[0], weight, bias, float(epsilon), **settings)


@dataclass(frozen=True, eq=False)
class LayerNormConfiguration(RowNormConfiguration):
    """Each row (..., channels) with a mean of 0 and a variance of 1, scaled and shifted."""


@dataclass(frozen=True, eq=False)
class RMSNormConfiguration(RowNormConfiguration):
    """Each row (..., channels) with a mean square of 1, scaled and shifted."""
