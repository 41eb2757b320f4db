"""What the modules of YOLOv4 on the card are made of: convolutions with their activations, and joining of branches."""

from __future__ import annotations

from functools import partial
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder import (
    Conv2dConfiguration,
    L1FullSliceStrategyConfiguration,
    MaxPool2dConfiguration,
    TtConv2d,
    TtMaxPool2d,
    TtUpsample,
    UpsampleConfiguration,
)
from tt_cnn.models.tt_model import Precision, weights_mapper
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.models.yolov4.tt.common import convert_parameters, infer_arguments
from tt_cnn.models.yolov4.tt.config import WIDTH, row_of, table_for

MISH = ttnn.UnaryWithParam(ttnn.UnaryOpType.MISH, 0.0)
"""The parameter chooses the exact form; without one, the convolution's kernel has no Mish."""
LEAKY_SLOPE = 0.1
SMALLEST_STICK = 16
"""Channels of a row-major shard: 32 bytes."""
LEAKY = ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, LEAKY_SLOPE)


class Conv:
    """A convolution, its batch norm folded in, and its activation.

    TT-NN runs a 1x1 convolution as a matrix multiplication when it is not width sharded, and that one fuses neither
    Mish nor leaky ReLU: they then follow in place.
    """

    def __init__(self, configuration: Conv2dConfiguration, device: Any, name: str, after: Any = None) -> None:
        self.conv = TtConv2d(configuration, device, name=name)
        self.after = after

    def __call__(self, x: Any) -> Any:
        y = self.conv(x)
        return y if self.after is None else self.after(y, output_tensor=y)


class ChannelsLast:
    """The picture (1, 3, H, W) as (1, 1, H * W, 16), in shards of rows; 13 of the channels are zeros.

    The picture waits on all cores, to take little of each; its shards then are made as high as those of 16 channels.
    """

    def __init__(self, resolution: tuple[int, int], grid: tuple[int, int]) -> None:
        height, width = resolution
        columns, rows = grid
        self.flat = (1, 1, height * width, SMALLEST_STICK)
        self.input_memory_config, self.memory_config = (
            ttnn.create_sharded_memory_config(
                (channels * height // (columns * rows), width),
                core_grid=ttnn.CoreGrid(x=columns, y=rows),
                strategy=ttnn.ShardStrategy.HEIGHT,
                use_height_and_width_as_shard_shape=True,
            )
            for channels in (3, SMALLEST_STICK)
        )

    def __call__(self, x: Any) -> Any:
        x = ttnn.to_memory_config(x, self.memory_config)
        x = freed(x, ttnn.pad(x, [(0, 0), (0, SMALLEST_STICK - x.shape[1]), (0, 0), (0, 0)], 0.0))
        x = freed(x, ttnn.permute(x, (0, 2, 3, 1)))
        return ttnn.reshape(ttnn.reallocate(x), self.flat)


class Twice:
    """Every pixel four times, in shards of some rows and at least 16 channels; from tiles to tiles."""

    rows_of_cores = 5
    columns_of_cores = 8

    def __init__(self, upsample: TtUpsample, dtype: Any) -> None:
        self.upsample = upsample
        self.dtype = dtype
        config = upsample.configuration
        pixels = config.batch_size * config.input_height * config.input_width
        columns = max(1, min(self.columns_of_cores, config.channels // SMALLEST_STICK))
        self.memory_config = ttnn.create_sharded_memory_config(
            (pixels // self.rows_of_cores, config.channels // columns),
            core_grid=ttnn.CoreGrid(x=columns, y=self.rows_of_cores),
            strategy=ttnn.ShardStrategy.BLOCK,
            use_height_and_width_as_shard_shape=True,
        )
        self.images = (config.batch_size, config.input_height, config.input_width, config.channels)
        self.flat = (1, 1, 4 * pixels, config.channels)

    def __call__(self, x: Any) -> Any:
        x = spread(x)
        x = freed(x, ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT))
        x = ttnn.reshape(x, self.images)
        x = freed(x, ttnn.to_memory_config(x, self.memory_config))
        x = spread(freed(x, self.upsample(x)))
        x = ttnn.reshape(x, self.flat)
        return freed(x, ttnn.to_layout(x, ttnn.TILE_LAYOUT, dtype=self.dtype))


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

    def mish(self, name: str, keeps_input: bool = False) -> Conv:
        return self._activated(name, MISH, ttnn.mish, keeps_input)

    def leaky(self, name: str, keeps_input: bool = False) -> Conv:
        return self._activated(name, LEAKY, partial(ttnn.leaky_relu, negative_slope=LEAKY_SLOPE), keeps_input)

    def plain(self, name: str) -> Conv:
        return Conv(self._configuration(name, self.arguments[name]), self.device, name)

    def _activated(self, name: str, fused: Any, after: Any, keeps_input: bool) -> Conv:
        arguments = self.arguments[f"{name}.conv"]
        as_matmul = arguments.kernel_size == (1, 1) and row_of(self.table, name).layout != WIDTH
        configuration = self._configuration(
            f"{name}.conv", arguments, activation=None if as_matmul else fused, deallocate_activation=not keeps_input
        )
        return Conv(configuration, self.device, name, after if as_matmul else None)

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
        return Twice(TtUpsample(configuration, self.device, name=f"{name}.twice"), self.dtype)


def _find(tree: Any, name: str) -> Any:
    for part in name.split("."):
        tree = tree[int(part) if part.isdigit() else part]
    return tree


def freed(x: Any, y: Any) -> Any:
    """y; x is no longer needed."""
    ttnn.deallocate(x)
    return y


def spread(x: Any) -> Any:
    """Out of the shards, over all banks of L1."""
    return freed(x, ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG)) if x.is_sharded() else x


def concatenated(parts: list[Any], dim: int, memory_config: Any = ttnn.L1_MEMORY_CONFIG) -> Any:
    """One after another; the parts are given back."""
    together = ttnn.concat(parts, dim=dim, memory_config=memory_config)
    for part in parts:
        ttnn.deallocate(part)
    return together


def joined(*parts: Any) -> Any:
    """Side by side along the channels, over all banks of L1; the parts are given back."""
    return concatenated([spread(part) for part in parts], dim=3)


def joined_in_place(x: Any, y: Any) -> Any:
    """Side by side without leaving the cores, which goes in rows of 16 channels or more, where each core has all the
    channels of its pixels; else as `joined`.
    """
    in_rows = x.memory_config().memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    if not in_rows or x.shape[-1] % SMALLEST_STICK:
        return joined(x, y)
    parts = [freed(part, ttnn.to_layout(part, ttnn.ROW_MAJOR_LAYOUT)) for part in (x, y)]
    shard = parts[0].memory_config().shard_spec
    config = ttnn.create_sharded_memory_config(
        (shard.shape[0], x.shape[-1] + y.shape[-1]),
        core_grid=shard.grid,
        strategy=ttnn.ShardStrategy.HEIGHT,
        use_height_and_width_as_shard_shape=True,
    )
    return concatenated(parts, dim=3, memory_config=config)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)
