# SPDX-License-Identifier: Apache-2.0
"""What convolutions and transposed convolutions have in common."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import torch

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration, as_tuple
from tt_cnn.builder.rules import Rule, border, check, flags, instance, pair, wholes
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    AutoTunedStrategyConfiguration,
    ShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import SliceStrategyConfiguration, any_slicing, channel_slices, divided_channels
from tt_cnn.builder.weights import random_values, to_host_tensors

Self = TypeVar("Self", bound="ConvolutionConfiguration")

BLOCK_FLOATS = (ttnn.bfloat8_b, ttnn.bfloat4_b)
_AUTOMATIC = AutoShardedStrategyConfiguration()
_HARD_MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.HARDMISH)

WEIGHT_RULES = (
    Rule(
        "weight",
        lambda c: isinstance(c.weight, ttnn.Tensor),
        lambda c: f"a ttnn.Tensor; {type(c).__name__}.convert_torch_weight_and_bias_to_ttnn makes one",
    ),
    Rule(
        "weight",
        lambda c: tuple(c.weight.shape) == c.weight_shape,
        lambda c: f"of shape {c.weight_shape}, for {c.in_channels} to {c.out_channels} channels in {c.groups} group(s)",
    ),
    Rule(
        "bias",
        lambda c: c.bias is None or isinstance(c.bias, ttnn.Tensor),
        lambda c: f"None or a ttnn.Tensor; {type(c).__name__}.convert_torch_weight_and_bias_to_ttnn makes one",
    ),
    Rule(
        "bias",
        lambda c: c.bias is None or tuple(c.bias.shape) == (1, 1, 1, c.out_channels),
        lambda c: f"of shape {(1, 1, 1, c.out_channels)}",
    ),
)

CONVOLUTION_RULES = (
    *wholes("input_height", "input_width", "in_channels", "out_channels", "batch_size", "groups"),
    pair("kernel_size"),
    pair("stride"),
    border("padding"),
    pair("dilation"),
    Rule("groups", lambda c: c.in_channels % c.groups == 0, lambda c: f"a divisor of in_channels ({c.in_channels})"),
    Rule("groups", lambda c: c.out_channels % c.groups == 0, lambda c: f"a divisor of out_channels ({c.out_channels})"),
    instance("activation", None, ttnn.UnaryWithParam, ttnn.UnaryOpType),
    NUMBERS_RULE,
    Rule("hard_mish", lambda c: not c.hard_mish or c.has_mish, lambda c: f"False with activation {c.activation}"),
    instance("activation_dtype", ttnn.DataType),
    instance("weights_dtype", ttnn.DataType),
    instance("output_dtype", ttnn.DataType),
    instance("output_layout", ttnn.Layout),
    Rule(
        "output_layout",
        lambda c: c.output_layout == ttnn.TILE_LAYOUT or c.output_dtype not in BLOCK_FLOATS,
        lambda c: f"ttnn.TILE_LAYOUT with output_dtype {c.output_dtype}: block formats exist only as tiles",
    ),
    instance("input_memory_config", None, ttnn.MemoryConfig),
    instance("output_memory_config", None, ttnn.MemoryConfig),
    instance("sharding_strategy", ShardedStrategyConfiguration),
    any_slicing(),
    Rule(
        "sharding_strategy",
        lambda c: (
            not isinstance(c.sharding_strategy, AutoTunedStrategyConfiguration) or channel_slices(c.slice_strategy) == 1
        ),
        "another strategy with channel slicing: each slice of the channels is a call of its own",
    ),
    divided_channels("in_channels"),
    Rule(
        "groups",
        lambda c: c.groups == 1 or channel_slices(c.slice_strategy) == 1,
        "1 with channel slicing: the slices are summed, so each must reach every output channel",
    ),
    instance("math_fidelity", ttnn.MathFidelity),
    *flags(
        "hard_mish",
        "fp32_dest_acc_en",
        "packer_l1_acc",
        "enable_act_double_buffer",
        "enable_weights_double_buffer",
        "deallocate_activation",
        "reallocate_halo_output",
        "config_tensors_in_dram",
    ),
)


@dataclass(frozen=True, eq=False)
class ConvolutionConfiguration(Configuration):
    input_height: int
    input_width: int
    in_channels: int
    out_channels: int
    batch_size: int
    kernel_size: tuple[int, int]
    weight: Any = field(repr=False)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    groups: int = 1
    dilation: tuple[int, int] = (1, 1)
    activation: Any = None
    bias: Any = field(default=None, repr=False)

    activation_dtype: Any = ttnn.bfloat16
    """The dtype that the input is expected in. The layer does not convert: the layer before it makes it so."""
    weights_dtype: Any = ttnn.bfloat16
    output_dtype: Any = ttnn.bfloat16
    output_layout: Any = ttnn.TILE_LAYOUT
    input_memory_config: Any = None
    """Where the input is moved to first. None: it stays. Interleaved in L1, an input in shards that do not suit the
    layer leaves the choice to TT-NN again; from DRAM the layer is cut into slices as far as it has to be."""
    output_memory_config: Any = None
    """Where the output is put. None: on the cores that made it, or in DRAM where the layer is cut into slices."""

    sharding_strategy: ShardedStrategyConfiguration = _AUTOMATIC
    slice_strategy: SliceStrategyConfiguration | None = None

    math_fidelity: Any = ttnn.MathFidelity.LoFi
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False
    hard_mish: bool = False
    """`HARDMISH` in the place of Mish: a parabola between two lines, six times as quick, up to 0.25 away from it."""

    enable_act_double_buffer: bool = False
    enable_weights_double_buffer: bool = True

    deallocate_activation: bool = False
    reallocate_halo_output: bool = True
    config_tensors_in_dram: bool = False

    pairs: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding", "dilation")
    tensors = ("weight", "bias")
    rules = CONVOLUTION_RULES

    def __post_init__(self) -> None:
        super().__post_init__()
        self.validate_weights()

    @staticmethod
    def channels_of_weight(in_channels: int, out_channels: int, groups: int) -> tuple[int, int]:
        """The first two sizes of `weight`, as PyTorch lays it out."""
        raise NotImplementedError

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        """The shape that `weight` must have."""
        return (*self.channels_of_weight(self.in_channels, self.out_channels, self.groups), *self.kernel_size)

    @property
    def output_size(self) -> tuple[int, int]:
        """(height, width) of the output."""
        raise NotImplementedError

    @property
    def has_mish(self) -> bool:
        return getattr(self.activation, "op_type", self.activation) == ttnn.UnaryOpType.MISH

    @property
    def used_activation(self) -> Any:
        """As the card computes it."""
        return _HARD_MISH if self.hard_mish else self.activation

    def validate_weights(self) -> None:
        check(self, WEIGHT_RULES)

    @staticmethod
    def convert_torch_weight_and_bias_to_ttnn(
        weight: torch.Tensor, bias: torch.Tensor | None = None, mesh_mapper: Any = None
    ) -> tuple[Any, Any]:
        return to_host_tensors(weight, bias, mesh_mapper)

    @classmethod
    def with_random_weights(
        cls: type[Self],
        input_height: int,
        input_width: int,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        kernel_size: tuple[int, int],
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> Self:
        """Normal weights and bias, for trying out a shape."""
        kernel = as_tuple(kernel_size)
        channels = cls.channels_of_weight(in_channels, out_channels, settings.get("groups", 1))
        values = random_values((*channels, *kernel)), random_values((out_channels,))
        weight, bias = to_host_tensors(*values, mesh_mapper)
        sizes = input_height, input_width, in_channels, out_channels, batch_size
        return cls(*sizes, kernel, weight, bias=bias, **settings)

    @classmethod
    def from_torch(
        cls: type[Self],
        torch_layer: Any,
        input_height: int,
        input_width: int,
        batch_size: int,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> Self:
        """The same layer: shape and weights from PyTorch's, all else from `settings`."""
        shape = cls.shape_of_torch(torch_layer)
        weight, bias = to_host_tensors(torch_layer.weight, torch_layer.bias, mesh_mapper)
        return cls(
            input_height=input_height,
            input_width=input_width,
            batch_size=batch_size,
            weight=weight,
            bias=bias,
            **{**shape, **settings},
        )

    @classmethod
    def shape_of_torch(cls, layer: Any) -> dict[str, Any]:
        """Settings that PyTorch's layer has too."""
        names = ("in_channels", "out_channels", "kernel_size", "stride", "padding", "groups", "dilation")
        return {name: getattr(layer, name) for name in names}
