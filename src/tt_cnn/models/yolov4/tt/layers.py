# SPDX-License-Identifier: Apache-2.0
"""What the modules of YOLOv4 on the card are made of: convolutions with their activations, and joining of branches."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    ConcatConfiguration,
    Conv2dConfiguration,
    L1FullSliceStrategyConfiguration,
    MaxPool2dConfiguration,
    PlacementConfiguration,
    TtAdd,
    TtConcat,
    TtConv2d,
    TtMaxPool2d,
    TtPlacement,
    TtUpsample,
    UpsampleConfiguration,
    free,
)
from tt_cnn.models.tt_model import Precision, weights_mapper
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.models.yolov4.tt.common import convert_parameters, infer_arguments
from tt_cnn.models.yolov4.tt.config import HEIGHT, SMALLEST_STICK, row_of, table_for

MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)
"""The parameter chooses the exact form; without one, the convolution's kernel has no Mish."""
LEAKY_SLOPE = 0.1
LEAKY = ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, LEAKY_SLOPE)


class Twice:
    """Every pixel four times, in shards of some rows and at least 16 channels; from tiles to tiles."""

    rows_of_cores = 5
    columns_of_cores = 8

    def __init__(self, upsample: TtUpsample) -> None:
        self.upsample = upsample
        device, name = upsample.device, f"{upsample.name}."
        shards = self._shards(upsample.configuration)
        self.rows = TtPlacement(PlacementConfiguration(ttnn.L1_MEMORY_CONFIG), device, f"{name}rows")
        self.input = TtPlacement(PlacementConfiguration(shards), device, f"{name}input")
        self.output = TtPlacement(PlacementConfiguration(ttnn.L1_MEMORY_CONFIG), device, f"{name}output")

    def _shards(self, config: UpsampleConfiguration) -> Any:
        pixels = config.batch_size * config.input_height * config.input_width
        columns = max(1, min(self.columns_of_cores, config.channels // SMALLEST_STICK))
        return ttnn.create_sharded_memory_config(
            (pixels // self.rows_of_cores, config.channels // columns),
            core_grid=ttnn.CoreGrid(x=columns, y=self.rows_of_cores),
            strategy=ttnn.ShardStrategy.BLOCK,
            use_height_and_width_as_shard_shape=True,
        )

    def __call__(self, x: Any) -> Any:
        """The dtype stays; rows are bfloat16 on the way."""
        config, dtype = self.upsample.configuration, x.dtype
        pixels = config.batch_size * config.input_height * config.input_width
        x = self.rows(x)
        if x.layout != ttnn.ROW_MAJOR_LAYOUT:
            x = freed(x, ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT))
        x = ttnn.reshape(x, (config.batch_size, config.input_height, config.input_width, config.channels))
        x = self.input(x)
        x = self.output(freed(x, self.upsample(x)))
        x = ttnn.reshape(x, (1, 1, 4 * pixels, config.channels))
        return freed(x, ttnn.to_layout(x, ttnn.TILE_LAYOUT, dtype=dtype))


class Layers:
    """Makes the layers of a model by their names in the reference."""

    def __init__(
        self, reference: YOLOv4, device: Any, resolution: tuple[int, int], batch_size: int, precision: Precision
    ) -> None:
        self.device = device
        self.batch_size = batch_size
        self.table = table_for(resolution, precision)
        self.dtype = ttnn.bfloat16 if precision == "bfloat16" else ttnn.bfloat8_b
        self.parameters = convert_parameters(reference, weights_mapper(device))
        self.arguments = infer_arguments(reference, resolution)

    def mish(self, name: str, keeps_input: bool = False) -> TtConv2d:
        return self._activated(name, MISH, keeps_input)

    def leaky(self, name: str, keeps_input: bool = False) -> TtConv2d:
        return self._activated(name, LEAKY, keeps_input)

    def plain(self, name: str) -> TtConv2d:
        return TtConv2d(self._configuration(name, self.arguments[name]), self.device, name)

    def add(self, name: str) -> TtAdd:
        """The sum of a residual block, in place of its first summand."""
        return TtAdd(AddConfiguration(), self.device, name)

    def concat(self, name: str) -> TtConcat:
        """Over all banks of L1."""
        return TtConcat(ConcatConfiguration("l1"), self.device, name)

    def concat_like(self, name: str, branch: str) -> TtConcat:
        """Without leaving the cores, which goes in rows of 16 channels or more, where each core has all the channels of
        its pixels, as the convolution `branch` leaves them; else over all banks of L1."""
        in_rows = row_of(self.table, branch).layout == HEIGHT
        if not in_rows or self.arguments[f"{branch}.conv"].out_channels % SMALLEST_STICK:
            return self.concat(name)
        return TtConcat(ConcatConfiguration("shards", layout=ttnn.ROW_MAJOR_LAYOUT), self.device, name)

    def placement(self, name: str, memory_config: Any = None) -> TtPlacement:
        return TtPlacement(PlacementConfiguration(memory_config), self.device, name)

    def _activated(self, name: str, activation: Any, keeps_input: bool) -> TtConv2d:
        configuration = self._configuration(
            f"{name}.conv",
            self.arguments[f"{name}.conv"],
            activation=activation,
            deallocate_activation=not keeps_input,
        )
        return TtConv2d(configuration, self.device, name)

    def _configuration(self, name: str, arguments: Any, **settings: Any) -> Conv2dConfiguration:
        row = row_of(self.table, name)
        parameters = _find(self.parameters, name)
        return Conv2dConfiguration.from_model_args(
            arguments,
            parameters["weight"],
            parameters["bias"],
            **{
                "batch_size": self.batch_size,
                "output_dtype": row.output,
                "weights_dtype": row.weights,
                "sharding_strategy": row.strategy,
                "slice_strategy": L1FullSliceStrategyConfiguration(),
                "math_fidelity": row.fidelity,
                "fp32_dest_acc_en": row.fp32_sums,
                "packer_l1_acc": True,
                "enable_act_double_buffer": True,
                "deallocate_activation": True,
                **settings,
            },
        )

    def max_pool(self, name: str) -> TtMaxPool2d:
        """Its output is as the convolutions want it: tiles in their dtype."""
        arguments = self.arguments[name]
        configuration = MaxPool2dConfiguration(
            arguments.input_height,
            arguments.input_width,
            arguments.input_channels,
            self.batch_size,
            kernel_size=_pair(arguments.kernel_size),
            padding=_pair(arguments.padding),
            dtype=self.dtype,
            output_layout=ttnn.TILE_LAYOUT,
        )
        return TtMaxPool2d(configuration, self.device, name=name)

    def twice(self, name: str) -> Twice:
        """Twice the size of what the convolution of that name gives."""
        arguments = self.arguments[f"{name}.conv"]
        configuration = UpsampleConfiguration(
            arguments.input_height, arguments.input_width, arguments.out_channels, self.batch_size, scale_factor=(2, 2)
        )
        return Twice(TtUpsample(configuration, self.device, name=f"{name}.twice"))


def _find(tree: Any, name: str) -> Any:
    for part in name.split("."):
        tree = tree[int(part) if part.isdigit() else part]
    return tree


def freed(x: Any, y: Any) -> Any:
    """y; x is no longer needed."""
    free(x)
    return y


def concatenated(parts: list[Any], dim: int, memory_config: Any = ttnn.L1_MEMORY_CONFIG) -> Any:
    """One after another; the parts are given back."""
    together = ttnn.concat(parts, dim=dim, memory_config=memory_config)
    for part in parts:
        free(part)
    return together


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
