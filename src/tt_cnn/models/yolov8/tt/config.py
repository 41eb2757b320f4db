# SPDX-License-Identifier: Apache-2.0
"""How every layer is spread over the cores, in which precision, and what it frees: a table a scale.

- Strides 2 to 8 are height sharded: many rows, few channels. An activation block is a core's whole share unless the
  table says otherwise: in the scale x the stem, `stage1.down` (whose halo is the largest tensor of the model) and the
  first branch for classes take theirs in two halves.
- Strides 16 and 32 of the scale x are block sharded: 320 or 640 channels deep, a core that held all weights of a 3x3
  convolution would wait for them. The scale s is half as wide, and stays height sharded down to stride 16.
- A grid of blocks is as wide as divides the channels: all parts of a C2f, and the maps that are joined in the neck,
  then lie on the same cores. `down`s give their output on the grid of their input: left alone, TT-NN would spread 640
  channels over 7 columns, and move them again before every 1x1 convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    HeightShardedStrategyConfiguration,
    MaxPool2dConfiguration,
    ShardedStrategyConfiguration,
    UpsampleConfiguration,
)
from tt_cnn.models.tt_model import Precision

SILU = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
PICTURE_CHANNELS = 3
Grid = tuple[int, int]
"""Columns and rows of cores."""


@dataclass(frozen=True)
class Conv:
    """What the weights do not say of a convolution."""

    size: int
    """Height and width of its input."""
    sharding: ShardedStrategyConfiguration
    stride: int = 1
    keeps_input: bool = False
    """Others need it too; else it is given back as soon as it has been read."""
    predicts: bool = False
    """No SiLU; bfloat16 out."""


def height(rows: int = 0) -> HeightShardedStrategyConfiguration:
    return HeightShardedStrategyConfiguration(act_block_h_override=rows)


def block(rows: int = 0) -> BlockShardedStrategyConfiguration:
    return BlockShardedStrategyConfiguration(act_block_h_override=rows)


def block_on(grid: Grid, rows: int = 0) -> BlockShardedStrategyConfiguration:
    """On these cores, and so is the output."""
    columns, lines = grid
    cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(columns - 1, lines - 1))])
    return BlockShardedStrategyConfiguration(
        override_core_grid=cores, override_output_sharding_config=True, act_block_h_override=rows
    )


def c2f(name: str, size: int, sharding: ShardedStrategyConfiguration) -> dict[str, Conv]:
    """The convolutions of a C2f: its input is freed after the second half, each part when all have been joined."""
    return {
        f"{name}.conv1_kept": Conv(size, sharding, keeps_input=True),
        f"{name}.conv1_worked": Conv(size, sharding),
        f"{name}.blocks.conv1": Conv(size, sharding, keeps_input=True),
        f"{name}.blocks.conv2": Conv(size, sharding),
        f"{name}.conv2": Conv(size, sharding),
    }


def branch(name: str, size: int, sharding: ShardedStrategyConfiguration) -> dict[str, Conv]:
    return {
        f"{name}.conv1": Conv(size, sharding, keeps_input=True),
        f"{name}.conv2": Conv(size, sharding),
        f"{name}.conv3": Conv(size, sharding, predicts=True),
    }


def layers_of_x(grid: Grid) -> dict[str, Conv]:
    return {
        "backbone.stem": Conv(640, height(800), stride=2),
        "backbone.stage1.down": Conv(320, height(224), stride=2),
        **c2f("backbone.stage1.c2f", 160, height()),
        "backbone.stage2.down": Conv(160, height(), stride=2),
        **c2f("backbone.stage2.c2f", 80, height()),
        "backbone.stage3.down": Conv(80, block_on(grid), stride=2, keeps_input=True),
        **c2f("backbone.stage3.c2f", 40, block()),
        "backbone.stage4.down": Conv(40, block_on(grid), stride=2, keeps_input=True),
        **c2f("backbone.stage4.c2f", 20, block()),
        "backbone.sppf.conv1": Conv(20, block()),
        "backbone.sppf.conv2": Conv(20, block()),
        **c2f("neck.up1", 40, block()),
        **c2f("neck.up2", 80, height()),
        "neck.down1": Conv(80, block_on(grid), stride=2, keeps_input=True),
        **c2f("neck.c2f1", 40, block()),
        "neck.down2": Conv(40, block_on(grid), stride=2, keeps_input=True),
        **c2f("neck.c2f2", 20, block()),
        **branch("head.boxes.0", 80, height()),
        **branch("head.classes.0", 80, block(416)),
        "head.classes.0.conv1": Conv(80, block_on(grid, 416), keeps_input=True),
        **branch("head.boxes.1", 40, block()),
        **branch("head.classes.1", 40, block()),
        **branch("head.boxes.2", 20, block()),
        **branch("head.classes.2", 20, block()),
    }


def layers_of_s(grid: Grid) -> dict[str, Conv]:
    return {
        "backbone.stem": Conv(640, height(), stride=2),
        "backbone.stage1.down": Conv(320, height(), stride=2),
        **c2f("backbone.stage1.c2f", 160, height()),
        "backbone.stage2.down": Conv(160, height(), stride=2),
        **c2f("backbone.stage2.c2f", 80, height()),
        "backbone.stage3.down": Conv(80, height(), stride=2, keeps_input=True),
        **c2f("backbone.stage3.c2f", 40, height()),
        "backbone.stage4.down": Conv(40, block_on(grid), stride=2, keeps_input=True),
        **c2f("backbone.stage4.c2f", 20, block()),
        "backbone.sppf.conv1": Conv(20, block()),
        "backbone.sppf.conv2": Conv(20, block()),
        **c2f("neck.up1", 40, height()),
        **c2f("neck.up2", 80, height()),
        "neck.down1": Conv(80, height(), stride=2, keeps_input=True),
        **c2f("neck.c2f1", 40, height()),
        "neck.down2": Conv(40, block_on(grid), stride=2, keeps_input=True),
        **c2f("neck.c2f2", 20, block()),
        **branch("head.boxes.0", 80, height()),
        **branch("head.classes.0", 80, height()),
        **branch("head.boxes.1", 40, height()),
        **branch("head.classes.1", 40, height()),
        **branch("head.boxes.2", 20, block()),
        **branch("head.classes.2", 20, block()),
    }


WORMHOLE = {"x": layers_of_x((5, 8)), "s": layers_of_s((8, 8))}
"""For 8 x 8 cores."""
BLACKHOLE = {"x": layers_of_x((10, 10)), "s": layers_of_s((8, 10))}
"""For 11 x 10 cores: twice as many columns divide 320 channels. L1 is as large, and each core's share is smaller."""


@dataclass(frozen=True)
class Numbers:
    """What a layer computes with."""

    activations: Any
    weights: Any
    fidelity: Any
    fp32_dest_acc_en: bool
    double_buffers: bool = True


TUNED = Numbers(ttnn.bfloat8_b, ttnn.bfloat8_b, ttnn.MathFidelity.LoFi, fp32_dest_acc_en=False)
EXACT = Numbers(ttnn.bfloat16, ttnn.bfloat8_b, ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True, double_buffers=False)
"""Without double buffers: activations and weights of twice the size leave no room for these."""
FIRST = replace(EXACT, weights=ttnn.bfloat16, double_buffers=True)
"""The first convolution's: neighbouring pixels are nearly equal, so its sums are small differences of large products,
and an error of its weights is an error of all that follows. With three input channels it costs next to nothing.
"""


def configurations(parameters: Any, layers: Mapping[str, Conv], precision: Precision) -> dict[str, Any]:
    """A configuration for each layer, by the name that the layer has in the reference."""
    numbers = TUNED if precision == "tuned" else EXACT
    found = of_convolutions(parameters, layers, numbers)
    pooled, coarse, middle = (
        found[name].out_channels for name in ("backbone.sppf.conv1", "backbone.sppf.conv2", "neck.up1.conv2")
    )
    found["backbone.sppf.pool"] = MaxPool2dConfiguration(
        20,
        20,
        pooled,
        batch_size=1,
        kernel_size=(5, 5),
        padding=(2, 2),
        dtype=numbers.activations,
        output_layout=ttnn.TILE_LAYOUT,
    )
    found["neck.upsample1"] = UpsampleConfiguration(20, 20, coarse, batch_size=1, scale_factor=(2, 2))
    found["neck.upsample2"] = UpsampleConfiguration(40, 40, middle, batch_size=1, scale_factor=(2, 2))
    return found


def of_convolutions(parameters: Any, layers: Mapping[str, Conv], numbers: Numbers) -> dict[str, Any]:
    """The convolutions alone, of the whole model or of a part whose parameters are nested as they are there."""
    return {name: _convolution(layers[row_of(name)], inside, numbers) for name, inside in _convolutions(parameters)}


def row_of(name: str) -> str:
    """A layer's row of the table: all blocks of a C2f share theirs."""
    before, blocks, after = name.partition(".blocks.")
    return f"{before}{blocks}{after.partition('.')[2]}" if blocks else name


def _convolution(layer: Conv, parameters: Any, numbers: Numbers) -> Conv2dConfiguration:
    outputs, inputs, kernel, _ = tuple(parameters.weight.shape)
    first = inputs == PICTURE_CHANNELS
    own = FIRST if first else numbers
    return Conv2dConfiguration(
        input_height=layer.size,
        input_width=layer.size,
        in_channels=inputs,
        out_channels=outputs,
        batch_size=1,
        kernel_size=(kernel, kernel),
        stride=(layer.stride, layer.stride),
        padding=(kernel // 2, kernel // 2),
        weight=parameters.weight,
        bias=parameters.bias,
        activation=None if layer.predicts else SILU,
        activation_dtype=own.activations,
        weights_dtype=own.weights,
        output_dtype=ttnn.bfloat16 if layer.predicts else numbers.activations,
        sharding_strategy=layer.sharding,
        math_fidelity=own.fidelity,
        fp32_dest_acc_en=own.fp32_dest_acc_en,
        packer_l1_acc=True,
        enable_act_double_buffer=own.double_buffers,
        enable_weights_double_buffer=own.double_buffers,
        deallocate_activation=not layer.keeps_input,
    )


def _convolutions(parameters: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if "weight" in parameters:
        yield name, parameters
        return
    for key, inside in enumerate(parameters) if isinstance(parameters, list) else parameters.items():
        yield from _convolutions(inside, f"{name}.{key}" if name else str(key))
