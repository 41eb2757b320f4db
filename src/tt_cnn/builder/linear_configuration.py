# SPDX-License-Identifier: Apache-2.0
"""The configuration of a fully connected layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, check, flags, instance, wholes
from tt_cnn.builder.weights import random_values, to_host_tensors

WEIGHT_RULES = (
    instance("weight", ttnn.Tensor),
    Rule(
        "weight",
        lambda c: _matrix(c.weight) == (c.in_features, c.out_features),
        lambda c: f"of shape {(c.in_features, c.out_features)}: PyTorch's weight, transposed",
    ),
    instance("bias", None, ttnn.Tensor),
    Rule(
        "bias",
        lambda c: c.bias is None or _matrix(c.bias) == (1, c.out_features),
        lambda c: f"of shape {(1, 1, 1, c.out_features)} or {(1, c.out_features)}",
    ),
)


@dataclass(frozen=True, eq=False)
class LinearConfiguration(Configuration):
    in_features: int
    out_features: int
    weight: Any = field(repr=False)
    """(in_features, out_features), leading dimensions of 1 allowed."""
    bias: Any = field(default=None, repr=False)
    activation: Any = None
    """A name that ttnn.linear knows ("relu", "gelu", ...) or a ttnn.UnaryWithParam."""

    weights_dtype: Any = ttnn.bfloat16
    output_dtype: Any = ttnn.bfloat16
    math_fidelity: Any = ttnn.MathFidelity.LoFi
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False

    input_memory_config: Any = None
    """Where the input is moved to first; None: it stays. Few rows are multiplied quickest from width shards."""
    memory_config: Any = None
    core_grid: Any = None

    tensors = ("weight", "bias")
    rules = (
        *wholes("in_features", "out_features"),
        instance("activation", None, str, ttnn.UnaryWithParam),
        NUMBERS_RULE,
        instance("weights_dtype", ttnn.DataType),
        instance("output_dtype", ttnn.DataType),
        instance("math_fidelity", ttnn.MathFidelity),
        *flags("fp32_dest_acc_en", "packer_l1_acc"),
        instance("input_memory_config", None, ttnn.MemoryConfig),
        instance("memory_config", None, ttnn.MemoryConfig),
        instance("core_grid", None, ttnn.CoreGrid),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.validate_weights()

    def validate_weights(self) -> None:
        check(self, WEIGHT_RULES)

    @classmethod
    def with_random_weights(
        cls, in_features: int, out_features: int, mesh_mapper: Any = None, **settings: Any
    ) -> LinearConfiguration:
        """Normal weights and bias, for trying out a shape."""
        weight, bias = to_host_tensors(
            random_values((in_features, out_features)), random_values((out_features,)), mesh_mapper
        )
        return cls(in_features, out_features, weight, bias, **settings)

    @classmethod
    def from_torch(cls, torch_layer: torch.nn.Linear, mesh_mapper: Any = None, **settings: Any) -> LinearConfiguration:
        """The same layer: weights from PyTorch's, all else from `settings`."""
        weight, bias = to_host_tensors(torch_layer.weight.T.contiguous(), torch_layer.bias, mesh_mapper)
        return cls(torch_layer.in_features, torch_layer.out_features, weight, bias, **settings)


def _matrix(tensor: Any) -> tuple[int, ...]:
    """The last two dimensions, where the ones before them are all 1."""
    shape = tuple(tensor.shape)
    return shape[-2:] if all(size == 1 for size in shape[:-2]) else shape
