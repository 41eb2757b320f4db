# SPDX-License-Identifier: Apache-2.0
"""Configurations of networks of inverted residuals, from a reference, its parameters and a table of tunings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    AvgPool2dConfiguration,
    Conv2dConfiguration,
    LinearConfiguration,
    ShardedStrategyConfiguration,
)
from tt_cnn.models.inverted_residuals import (
    BlockConfiguration,
    BlockNames,
    Names,
    NetworkConfiguration,
    StemConfiguration,
    row_wise,
)
from tt_cnn.models.picture import PictureConfiguration
from tt_cnn.models.tt_model import Precision

RELU6 = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU6)


@dataclass(frozen=True)
class Arithmetic:
    """In what a convolution computes. What goes from block to block is bfloat16 in any case: residuals add up."""

    wide: Any
    """Dtype of activations after a ReLU6: of the stem, inside a block, and of the last convolution."""
    weights: Any
    fidelity: Any
    float32_sums: bool


CAREFUL = Arithmetic(ttnn.bfloat16, ttnn.bfloat16, ttnn.MathFidelity.HiFi4, float32_sums=True)
"""All that the card can do with bfloat16 tensors."""
LEAN = Arithmetic(ttnn.bfloat8_b, ttnn.bfloat8_b, ttnn.MathFidelity.LoFi, float32_sums=False)


class BlockTuning(NamedTuple):
    """How the convolutions of a block are spread over the cores, and what they compute in."""

    expand: ShardedStrategyConfiguration
    depthwise: ShardedStrategyConfiguration
    project: ShardedStrategyConfiguration
    arithmetic: Arithmetic


@dataclass(frozen=True)
class Tuning:
    """A network on the cores of a card."""

    input_cores: int
    """Cores that the image lies on: as many as the first convolution uses."""
    stem: tuple[ShardedStrategyConfiguration, Arithmetic]
    blocks: tuple[BlockTuning, ...]
    head: tuple[ShardedStrategyConfiguration, Arithmetic]
    linear_grid: Any

    def in_bfloat16(self) -> Tuning:
        """The same with bfloat16 activations all through."""
        return replace(
            self,
            stem=(self.stem[0], CAREFUL),
            blocks=tuple(block._replace(arithmetic=CAREFUL) for block in self.blocks),
            head=(self.head[0], CAREFUL),
        )


def configure(
    reference: nn.Module,
    parameters: Any,
    names: Names,
    tuning: Tuning,
    device: Any,
    *,
    batch_size: int,
    resolution: tuple[int, int],
    precision: Precision,
) -> NetworkConfiguration:
    """`parameters` are those of the reference, batch norms folded in, nested as it is."""
    if precision == "bfloat16":
        tuning = tuning.in_bfloat16()
    convs = _Convolutions(reference, parameters, batch_size, resolution)
    picture = PictureConfiguration(*resolution, batch_size, "hwc", row_wise(tuning.input_cores, device))
    stem = StemConfiguration(picture, convs.wide(names.stem, *tuning.stem))
    blocks = tuple(convs.block(n, t) for n, t in zip(names.blocks, tuning.blocks, strict=True))
    head = convs.wide(names.head, *tuning.head)
    pool = AvgPool2dConfiguration(
        *head.output_size,
        head.out_channels,
        batch_size,
        head.output_size,
        deallocate_input=True,
        output_layout=ttnn.TILE_LAYOUT,
    )
    arithmetic, weights = tuning.head[1], _inside(parameters, names.linear)
    linear = LinearConfiguration(
        head.out_channels,
        weights.bias.shape[-1],
        weights.weight,
        weights.bias,
        weights_dtype=arithmetic.weights,
        math_fidelity=arithmetic.fidelity,
        fp32_dest_acc_en=arithmetic.float32_sums,
        packer_l1_acc=True,
        memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
        core_grid=tuning.linear_grid,
    )
    return NetworkConfiguration(stem, blocks, head, pool, linear, batch_size, resolution)


class _Convolutions:
    """Makes configurations in the order of the network; knows the size and dtype that the image has reached."""

    def __init__(self, reference: nn.Module, parameters: Any, batch_size: int, size: tuple[int, int]) -> None:
        self.reference, self.parameters, self.batch_size = reference, parameters, batch_size
        self.size, self.dtype = size, ttnn.bfloat16

    def block(self, names: BlockNames, tuning: BlockTuning) -> BlockConfiguration:
        first: Any = self.reference.get_submodule(names.expand or names.depthwise)
        depthwise: Any = self.reference.get_submodule(names.depthwise)
        project: Any = self.reference.get_submodule(names.project)
        adds_input = depthwise.stride == (1, 1) and first.in_channels == project.out_channels
        in_what = tuning.arithmetic
        expand = names.expand and self.wide(names.expand, tuning.expand, in_what, deallocate_activation=not adds_input)
        return BlockConfiguration(
            expand=expand or None,
            depthwise=self.wide(names.depthwise, tuning.depthwise, in_what),
            project=self._next(names.project, tuning.project, in_what, output_dtype=ttnn.bfloat16),
            adds_input=adds_input,
        )

    def wide(
        self, name: str, sharding: ShardedStrategyConfiguration, arithmetic: Arithmetic, **settings: Any
    ) -> Conv2dConfiguration:
        return self._next(name, sharding, arithmetic, activation=RELU6, output_dtype=arithmetic.wide, **settings)

    def _next(
        self, name: str, sharding: ShardedStrategyConfiguration, arithmetic: Arithmetic, **settings: Any
    ) -> Conv2dConfiguration:
        layer: Any = self.reference.get_submodule(name)
        weights = _inside(self.parameters, name)
        # TT-NN fills depthwise weights up with zeros to those of a full convolution: too large for L1 twice as bfloat16
        twice = layer.groups == 1 or arithmetic.weights == ttnn.bfloat8_b
        usual: dict[str, Any] = {
            "activation_dtype": self.dtype,
            "weights_dtype": arithmetic.weights,
            "math_fidelity": arithmetic.fidelity,
            "fp32_dest_acc_en": arithmetic.float32_sums,
            "packer_l1_acc": True,
            "sharding_strategy": sharding,
            "deallocate_activation": True,
            "reallocate_halo_output": False,  # L1 has room enough not to close its gaps
            "enable_act_double_buffer": True,
            "enable_weights_double_buffer": twice,
        }
        configuration = Conv2dConfiguration(
            *self.size,
            layer.in_channels,
            layer.out_channels,
            self.batch_size,
            layer.kernel_size,
            weights.weight,
            layer.stride,
            _padding(self.reference, name, layer),
            layer.groups,
            bias=weights.bias,
            **{**usual, **settings},
        )
        self.size, self.dtype = configuration.output_size, configuration.output_dtype
        return configuration


def _padding(reference: nn.Module, name: str, layer: nn.Conv2d) -> tuple[int, ...]:
    """(top, bottom, left, right) where a layer of its own pads before the convolution."""
    before = getattr(reference.get_submodule(name.rpartition(".")[0]), "pad", None)
    if not isinstance(before, nn.ZeroPad2d):
        return tuple(int(side) for side in layer.padding)
    left, right, top, bottom = before.padding
    return top, bottom, left, right


def _inside(parameters: Any, name: str) -> Any:
    for part in name.split("."):
        parameters = parameters[int(part) if part.isdigit() else part]
    return parameters
