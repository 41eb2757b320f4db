# SPDX-License-Identifier: Apache-2.0
"""Vanilla UNet at 480x640 as a TT-NN program: everything height sharded on 64 cores, skips parked in DRAM.

Weights of zeros do: a plan does not see values. Block heights and what is deallocated when are those with which the
network fits (the L1_SMALL column of the table tells the block heights apart).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

HEIGHT, WIDTH = 480, 640


@dataclass(frozen=True)
class Conv:
    """A 3x3 convolution: input and output channels, rows of an activation block, dtype of the output."""

    inputs: int
    outputs: int
    block_rows: int
    dtype: str = "bfloat16"
    frees_input: bool = True
    double_buffers: bool = True
    kernel: int = 3
    auto_sharded: bool = False
    fidelity: str = "LoFi"
    activation: bool = True


@dataclass(frozen=True)
class Up:
    """A 2x2 transposed convolution of stride 2."""

    inputs: int
    outputs: int
    block_rows: int
    dtype: str = "bfloat16"


ENCODERS = (
    (Conv(3, 32, 480), Conv(32, 32, 192, "bfloat8_b")),
    (Conv(32, 64, 256), Conv(64, 64, 256, frees_input=False)),
    (Conv(64, 128, 64), Conv(128, 128, 64)),
    (Conv(128, 256, 32), Conv(256, 256, 32)),
)
BOTTLENECK = (Conv(256, 512, 32, double_buffers=False), Conv(512, 512, 32, double_buffers=False, auto_sharded=True))
DECODERS = (
    (Up(512, 256, 32), Conv(512, 256, 96, "bfloat8_b", double_buffers=False), Conv(256, 256, 32, "bfloat8_b")),
    (Up(256, 128, 160, "bfloat8_b"), Conv(256, 128, 64), Conv(128, 128, 160)),
    (Up(128, 64, 64), Conv(128, 64, 64), Conv(64, 64, 64, "bfloat8_b")),
    (
        Up(64, 32, 160, "bfloat8_b"),
        Conv(64, 32, 320, "bfloat8_b", double_buffers=False),
        Conv(32, 32, 320, "bfloat8_b"),
    ),
)
LAST = Conv(32, 1, 0, kernel=1, fidelity="HiFi2", activation=False)


class UNet:
    """Weights stay on the host, so that the card holds nothing between two passes."""

    def __init__(self, ttnn: Any, device: Any) -> None:
        self.ttnn = ttnn
        self.device = device

    def input(self) -> Any:
        ttnn = self.ttnn
        config = ttnn.create_sharded_memory_config(
            (3, HEIGHT * WIDTH // 64),
            core_grid=ttnn.CoreGrid(x=8, y=8),
            strategy=ttnn.ShardStrategy.WIDTH,
            use_height_and_width_as_shard_shape=True,
        )
        image = torch.zeros(1, 1, 3, HEIGHT * WIDTH, dtype=torch.bfloat16)
        return ttnn.from_torch(image, layout=ttnn.ROW_MAJOR_LAYOUT, device=self.device, memory_config=config)

    def __call__(self, image: Any) -> Any:
        ttnn = self.ttnn
        x = ttnn.experimental.convert_to_hwc(image)
        ttnn.deallocate(image)
        height, width = HEIGHT, WIDTH
        skips = []
        for first, second in ENCODERS:
            x = self.conv(x, first, height, width)
            x = self.conv(x, second, height, width)
            skips.append(ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG))
            x = self.pool(x, second.outputs, height, width)
            height, width = height // 2, width // 2
        for conv in BOTTLENECK:
            x = self.conv(x, conv, height, width)
        for up, first, second in DECODERS:
            x = self.up(x, up, height, width)
            height, width = height * 2, width * 2
            x = self.joined(x, skips.pop())
            x = self.conv(x, first, height, width)
            x = self.conv(x, second, height, width)
        x = self.conv(x, LAST, height, width)
        return ttnn.experimental.convert_to_chw(x, dtype=ttnn.bfloat16)

    def conv(self, x: Any, conv: Conv, height: int, width: int) -> Any:
        ttnn = self.ttnn
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=_host(ttnn, conv.outputs, conv.inputs, conv.kernel, conv.kernel),
            bias_tensor=_host(ttnn, 1, 1, 1, conv.outputs),
            device=self.device,
            in_channels=conv.inputs,
            out_channels=conv.outputs,
            batch_size=1,
            input_height=height,
            input_width=width,
            kernel_size=(conv.kernel, conv.kernel),
            padding=(conv.kernel // 2, conv.kernel // 2),
            dtype=getattr(ttnn, conv.dtype),
            conv_config=ttnn.Conv2dConfig(
                weights_dtype=ttnn.bfloat8_b,
                activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU) if conv.activation else None,
                deallocate_activation=conv.frees_input,
                act_block_h_override=conv.block_rows,
                shard_layout=None if conv.auto_sharded else ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
                enable_act_double_buffer=conv.double_buffers,
                enable_weights_double_buffer=conv.double_buffers,
            ),
            compute_config=self.compute(conv.fidelity),
            slice_config=ttnn.Conv2dL1FullSliceConfig,
        )

    def up(self, x: Any, up: Up, height: int, width: int) -> Any:
        ttnn = self.ttnn
        return ttnn.conv_transpose2d(
            input_tensor=x,
            weight_tensor=_host(ttnn, up.inputs, up.outputs, 2, 2),
            bias_tensor=_host(ttnn, 1, 1, 1, up.outputs),
            device=self.device,
            in_channels=up.inputs,
            out_channels=up.outputs,
            batch_size=1,
            input_height=height,
            input_width=width,
            kernel_size=(2, 2),
            stride=(2, 2),
            padding=(0, 0),
            dtype=getattr(ttnn, up.dtype),
            conv_config=ttnn.Conv2dConfig(
                weights_dtype=ttnn.bfloat8_b,
                deallocate_activation=True,
                act_block_h_override=up.block_rows,
                shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            ),
            compute_config=self.compute("LoFi"),
            dram_slice_config=ttnn.Conv2dL1FullSliceConfig,
        )

    def pool(self, x: Any, channels: int, height: int, width: int) -> Any:
        return self.ttnn.max_pool2d(x, 1, height, width, channels, [2, 2], [2, 2], [0, 0], [1, 1])

    def joined(self, x: Any, skip: Any) -> Any:
        """The upsampled tensor and the skip side by side; row-major where the dtypes or shards do not go as tiles."""
        ttnn = self.ttnn
        shard = x.memory_config().shard_spec
        skip = ttnn.to_memory_config(skip, x.memory_config())
        in_tiles = x.dtype == skip.dtype == ttnn.bfloat8_b
        both = [x, skip]
        if not in_tiles:
            rows = [ttnn.to_layout(one, ttnn.ROW_MAJOR_LAYOUT) for one in both]
            for one in both:
                ttnn.deallocate(one)
            both = rows
        config = ttnn.create_sharded_memory_config(
            (shard.shape[0], 2 * shard.shape[1]),
            core_grid=shard.grid,
            strategy=ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )
        together = ttnn.concat(both, dim=3, memory_config=config)
        for one in both:
            ttnn.deallocate(one)
        return together if in_tiles else ttnn.to_layout(together, ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b)

    def compute(self, fidelity: str) -> Any:
        ttnn = self.ttnn
        return ttnn.init_device_compute_kernel_config(
            self.device.arch(),
            math_fidelity=getattr(ttnn.MathFidelity, fidelity),
            fp32_dest_acc_en=True,
            packer_l1_acc=True,
        )


def _host(ttnn: Any, *shape: int) -> Any:
    return ttnn.from_torch(torch.zeros(shape, dtype=torch.bfloat16))
