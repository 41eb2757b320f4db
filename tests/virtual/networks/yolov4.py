# SPDX-License-Identifier: Apache-2.0
"""YOLOv4 at 320x320 or 640x640 as a TT-NN program, as tt-metal's demo of November 2025 runs it: backbone, neck, head
and box decoding. RELU stands in for hard Mish and leaky RELU, which TT-NN 0.81.1 does not join to matmuls.

Weights of zeros do: a plan does not see values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch

ANCHORS = (
    ((1.5, 2.0), (2.375, 4.5), (5.0, 3.5)),
    ((2.25, 4.6875), (4.75, 3.4375), (4.5, 9.125)),
    ((4.4375, 3.4375), (6.0, 7.59375), (14.34375, 12.53125)),
)
"""Widths and heights in cells, for strides 8, 16 and 32."""
CLASSES = 80
MISH = "hardmish"


@dataclass(frozen=True)
class Conv:
    """What differs between the convolutions: channels, size of the square input, kernel, stride, layout, ..."""

    inputs: int
    outputs: int
    size: int
    kernel: int = 1
    stride: int = 1
    layout: str = "HEIGHT"
    frees_input: bool = True
    reshard: bool = False
    block_rows: int = 0
    dtype: str = "bfloat8_b"
    activation: str = "leaky_relu"
    """By its name; none where that is empty."""


def rows_of_eight(ttnn: Any, cores: int) -> Any:
    """Whole rows of eight cores, and what is left in the next."""
    rows, rest = divmod(cores, 8)
    ends = [((0, 0), (7, rows - 1))] + ([((0, rows), (rest - 1, rows))] if rest else [])
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in ends})


class YOLOv4:
    def __init__(self, ttnn: Any, device: Any, size: int = 320) -> None:
        self.ttnn = ttnn
        self.device = device
        self.size = size
        self.small = size == 320
        self.weights: dict[Conv, tuple[Any, Any]] = {}
        self.constants = [self._cells(size // stride) for stride in (8, 16, 32)]

    def input(self) -> Any:
        """Channels first, in the shards of an image that is padded to 16 channels."""
        ttnn = self.ttnn
        config = ttnn.create_sharded_memory_config(
            (16 * self.size // 64, self.size),
            core_grid=ttnn.CoreGrid(x=8, y=8),
            strategy=ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )
        image = ttnn.from_torch(
            torch.zeros(1, 3, self.size, self.size, dtype=torch.bfloat16), layout=ttnn.ROW_MAJOR_LAYOUT
        )
        return ttnn.to_device(image, self.device, memory_config=config)

    def __call__(self, image: Any) -> tuple[Any, Any]:
        third, fourth, fifth = self.backbone(self.channels_last(image))
        outputs = self.head(*self.neck(fifth, fourth, third))
        return self.boxes_and_confidences(outputs)

    def channels_last(self, image: Any) -> Any:
        ttnn = self.ttnn
        padded = ttnn.pad(image, [(0, 0), (0, 13), (0, 0), (0, 0)], 0.0)
        ttnn.deallocate(image)
        x = ttnn.permute(padded, (0, 2, 3, 1))
        ttnn.deallocate(padded)
        x = ttnn.reallocate(x)
        return ttnn.reshape(x, (1, 1, self.size**2, 16))

    def conv(self, x: Any, conv: Conv) -> Any:
        ttnn = self.ttnn
        if conv not in self.weights:
            weight = self.on_host(conv.outputs, conv.inputs, conv.kernel, conv.kernel)
            self.weights[conv] = weight, self.on_host(1, 1, 1, conv.outputs)
        weight, bias = self.weights[conv]
        output, self.weights[conv] = ttnn.conv2d(
            input_tensor=x,
            weight_tensor=weight,
            bias_tensor=bias,
            device=self.device,
            in_channels=conv.inputs,
            out_channels=conv.outputs,
            batch_size=1,
            input_height=conv.size,
            input_width=conv.size,
            kernel_size=(conv.kernel, conv.kernel),
            stride=(conv.stride, conv.stride),
            padding=(conv.kernel // 2, conv.kernel // 2),
            dtype=getattr(ttnn, conv.dtype),
            conv_config=ttnn.Conv2dConfig(
                weights_dtype=ttnn.bfloat8_b,
                activation=self.activation(conv) if conv.activation else None,
                deallocate_activation=conv.frees_input,
                act_block_h_override=conv.block_rows,
                shard_layout=getattr(ttnn.TensorMemoryLayout, f"{conv.layout}_SHARDED"),
                reshard_if_not_optimal=conv.reshard,
                enable_act_double_buffer=True,
            ),
            compute_config=ttnn.init_device_compute_kernel_config(
                self.device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, packer_l1_acc=False
            ),
            return_weights_and_bias=True,
        )
        return output

    def activation(self, conv: Conv) -> Any:
        return self.ttnn.UnaryWithParam(self.ttnn.UnaryOpType.RELU)

    def on_host(self, *shape: int) -> Any:
        """Parameters of a convolution."""
        return self.ttnn.from_torch(torch.zeros(shape, dtype=torch.bfloat16))

    # --- backbone: five stages, each halving the image -----------------------------------------------------------

    def backbone(self, x: Any) -> tuple[Any, Any, Any]:
        r = self.size
        rows = (128, 0, 0) if self.small else (256, 320, 256)
        x = self.conv(x, Conv(3, 32, r, 3, block_rows=rows[0], activation=MISH))
        down = Conv(32, 64, r, 3, 2, block_rows=rows[1])
        first = self.stage(x, down, 64, ("HEIGHT",) * 3, bottleneck=32, blocks=1, out=64, block_rows=rows[2])
        second = self.stage(first, Conv(64, 128, r // 2, 3, 2), 64, ("HEIGHT",) * 3, blocks=2, out=128)
        third = self.stage(second, Conv(128, 256, r // 4, 3, 2), 128, ("HEIGHT",) * 3, blocks=8, out=256)
        down = Conv(256, 512, r // 8, 3, 2, "BLOCK", frees_input=False, reshard=True)
        fourth = self.stage(third, down, 256, ("HEIGHT", "BLOCK", "BLOCK"), blocks=8, out=512, wide="bfloat16")
        down = Conv(512, 1024, r // 16, 3, 2, "BLOCK", frees_input=False, reshard=True)
        fifth = self.stage(fourth, down, 512, ("WIDTH", "HEIGHT", "WIDTH"), blocks=4, out=1024)
        return third, fourth, fifth

    def stage(
        self,
        x: Any,
        down: Conv,
        half: int,
        layouts: tuple[str, str, str],
        *,
        blocks: int,
        out: int,
        bottleneck: int | None = None,
        wide: str = "bfloat8_b",
        block_rows: int = 0,
    ) -> Any:
        """Downsample; one branch as it is, one through residual blocks of `layouts[2]`; both side by side."""
        ttnn = self.ttnn
        size, channels = down.size // 2, down.outputs
        inner = layouts[2]
        split = self.conv(x, replace(down, activation=MISH))
        left = self.conv(split, Conv(channels, half, size, layout=layouts[0], frees_input=False, activation=MISH))
        x = self.conv(split, Conv(channels, half, size, layout=layouts[1], dtype=wide, activation=MISH))
        for _ in range(blocks):
            narrow = bottleneck or half
            y = self.conv(x, Conv(half, narrow, size, layout=inner, frees_input=False, activation=MISH))
            y = self.conv(y, Conv(narrow, half, size, 3, layout=inner, block_rows=block_rows, activation=MISH))
            total = ttnn.add(x, y)
            ttnn.deallocate(x)
            ttnn.deallocate(y)
            x = total
        x = self.conv(x, Conv(half, half, size, layout=inner, activation=MISH))
        joined = self.joined_shards(x, left) if inner == "HEIGHT" else self.joined(self.spread(x), self.spread(left))
        last = Conv(2 * half, out, size, layout="HEIGHT" if inner == "HEIGHT" else "BLOCK", activation=MISH)
        return self.conv(joined, last)

    def joined_shards(self, x: Any, left: Any) -> Any:
        """Shard by shard, which goes in rows; the first stage of large images on all cores."""
        ttnn = self.ttnn
        both = [ttnn.to_layout(one, ttnn.ROW_MAJOR_LAYOUT) for one in (x, left)]
        ttnn.deallocate(x)
        ttnn.deallocate(left)
        shard = both[0].memory_config().shard_spec
        height, width, grid = *shard.shape, shard.grid
        if both[0].shape[2] == 320**2:
            height, grid = both[0].shape[2] // 64, ttnn.CoreGrid(x=8, y=8)
            both = [ttnn.to_memory_config(one, self.height_shards(height, width, grid)) for one in both]
        return self.joined(*both, config=self.height_shards(height, 2 * width, grid))

    def height_shards(self, height: int, width: int, grid: Any) -> Any:
        return self.ttnn.create_sharded_memory_config(
            (height, width),
            core_grid=grid,
            strategy=self.ttnn.ShardStrategy.HEIGHT,
            use_height_and_width_as_shard_shape=True,
        )

    def joined(self, *parts: Any, config: Any = None) -> Any:
        ttnn = self.ttnn
        together = ttnn.concat(list(parts), dim=3, memory_config=config or ttnn.L1_MEMORY_CONFIG)
        for part in parts:
            ttnn.deallocate(part)
        return together

    def spread(self, x: Any) -> Any:
        """Out of the shards, over all banks of L1."""
        ttnn = self.ttnn
        y = ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(x)
        return y

    def cast(self, x: Any) -> Any:
        ttnn = self.ttnn
        return ttnn.add(x, 0.0, dtype=ttnn.bfloat8_b, memory_config=ttnn.L1_MEMORY_CONFIG)

    # --- neck ----------------------------------------------------------------------------------------------------

    def neck(self, fifth: Any, fourth: Any, third: Any) -> tuple[Any, Any, Any]:
        ttnn = self.ttnn
        low, mid, high = (self.size // stride for stride in (32, 16, 8))
        x = self.conv(fifth, Conv(1024, 512, low, layout="BLOCK", reshard=True))
        x = self.conv(x, Conv(512, 1024, low, 3, layout="WIDTH"))
        x = self.conv(x, Conv(1024, 512, low, layout="BLOCK"))
        x = self.pyramid(x)
        x = self.conv(x, Conv(2048, 512, low, layout="BLOCK"))
        x = self.conv(x, Conv(512, 1024, low, 3, layout="WIDTH"))
        coarse = self.conv(x, Conv(1024, 512, low, layout="BLOCK"))
        x = self.conv(coarse, Conv(512, 256, low, layout="WIDTH", frees_input=False))
        up = self.upsampled(x, low, 256)
        x = self.spread(self.conv(fourth, Conv(512, 256, mid, layout="BLOCK")))
        x = self.joined(x, up)
        x = self.conv(x, Conv(512, 256, mid, layout="BLOCK"))
        for _ in range(2):
            x = self.conv(x, Conv(256, 512, mid, 3, layout="BLOCK"))
            x = self.conv(x, Conv(512, 256, mid, layout="BLOCK"))
        middle = x
        resharded = ttnn.to_memory_config(middle, self.columns()) if self.small else middle
        x = self.conv(resharded, Conv(256, 128, mid, layout="BLOCK", frees_input=self.small))
        up = self.upsampled(x, mid, 128)
        x = self.spread(self.conv(third, Conv(256, 128, high)))
        x = self.joined(x, up)
        x = self.conv(x, Conv(256, 128, high))
        for _ in range(2):
            x = self.conv(x, Conv(128, 256, high, 3))
            x = self.conv(x, Conv(256, 128, high))
        return x, middle, coarse

    def pyramid(self, x: Any) -> Any:
        """Pools of three sizes beside their input. They start from interleaved memory, to shard it as they like."""
        ttnn, size = self.ttnn, self.size // 32
        image = ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG)
        pools = [
            ttnn.max_pool2d(
                image, 1, size, size, 512, [k, k], [1, 1], [k // 2, k // 2], [1, 1], memory_config=ttnn.L1_MEMORY_CONFIG
            )
            for k in (13, 9, 5)
        ]
        ttnn.deallocate(image)
        pooled = ttnn.to_layout(self.joined(*pools), ttnn.TILE_LAYOUT)
        return self.joined(self.cast(pooled), self.spread(x))

    def upsampled(self, x: Any, size: int, channels: int) -> Any:
        ttnn = self.ttnn
        last = (0, 0, size * size - 1, channels - 1)
        rows = ttnn.untilize_with_unpadding(x, output_tensor_end=last, memory_config=ttnn.L1_MEMORY_CONFIG)
        ttnn.deallocate(x)
        image = ttnn.reshape(rows, (1, size, size, channels))
        config = self.height_shards(size, channels, rows_of_eight(ttnn, size))
        if self.small:
            config = ttnn.create_sharded_memory_config(
                (size * size // 5, channels // 8),
                core_grid=ttnn.CoreGrid(x=8, y=5),
                strategy=ttnn.ShardStrategy.BLOCK,
                use_height_and_width_as_shard_shape=True,
            )
        larger = ttnn.upsample(ttnn.to_memory_config(image, config), 2, memory_config=None)
        flat = ttnn.reshape(self.spread(larger), (1, 1, 4 * size * size, channels))
        return self.cast(ttnn.to_layout(flat, ttnn.TILE_LAYOUT))

    def columns(self) -> Any:
        """Blocks of 64x64 dealt column by column, on 7 by 4 cores."""
        ttnn = self.ttnn
        return ttnn.create_sharded_memory_config(
            (64, 64),
            core_grid=ttnn.CoreGrid(x=7, y=4),
            strategy=ttnn.ShardStrategy.BLOCK,
            orientation=ttnn.ShardOrientation.COL_MAJOR,
            use_height_and_width_as_shard_shape=True,
        )

    # --- head ----------------------------------------------------------------------------------------------------

    def head(self, fine: Any, middle: Any, coarse: Any) -> list[Any]:
        low, mid, high = (self.size // stride for stride in (32, 16, 8))
        last = "BLOCK" if self.small else "HEIGHT"
        x = self.conv(fine, Conv(128, 256, high, 3, frees_input=False, reshard=True))
        large = self.conv(x, Conv(256, 256, high, activation=""))
        x = self.conv(fine, Conv(128, 256, high, 3, 2, "BLOCK", frees_input=False, reshard=True))
        x = self.joined(self.cast(self.spread(x)), self.cast(self.spread(middle)))
        x = self.conv(x, Conv(512, 256, mid, layout="BLOCK"))
        for _ in range(2):
            x = self.conv(x, Conv(256, 512, mid, 3, layout="BLOCK"))
            x = self.conv(x, Conv(512, 256, mid, layout="BLOCK"))
        y = self.conv(x, Conv(256, 512, mid, 3, layout="BLOCK", frees_input=False, dtype="bfloat16"))
        medium = self.conv(y, Conv(512, 256, mid, layout="BLOCK", dtype="bfloat16", activation=""))
        x = self.conv(x, Conv(256, 512, mid, 3, 2, last, reshard=True, dtype="bfloat16"))
        x = self.joined(self.cast(self.spread(x)), self.cast(self.spread(coarse)))
        for _ in range(3):
            x = self.conv(x, Conv(1024, 512, low, layout="BLOCK", dtype="bfloat16"))
            x = self.conv(x, Conv(512, 1024, low, 3, layout="WIDTH", dtype="bfloat16"))
        small = self.conv(x, Conv(1024, 256, low, layout="BLOCK", dtype="bfloat16", activation=""))
        return [large, medium, small]

    # --- boxes ---------------------------------------------------------------------------------------------------

    def boxes_and_confidences(self, outputs: list[Any]) -> tuple[Any, Any]:
        ttnn = self.ttnn
        decoded = [self.decoded(*each) for each in zip(outputs, self.constants, ANCHORS, strict=True)]
        confidences = [ttnn.to_layout(confidence, ttnn.ROW_MAJOR_LAYOUT) for _, confidence in decoded]
        confidence = ttnn.concat(confidences, dim=1, memory_config=ttnn.L1_MEMORY_CONFIG)
        flat = []
        for index, (box, _) in enumerate(decoded):
            box = ttnn.to_layout(box, ttnn.ROW_MAJOR_LAYOUT)
            if index == 2:
                box = ttnn.pad(box, [(0, 0), (0, 0), (0, 0), (0, 28)], 0.0)
            box = ttnn.reshape(box, (1, 4, 1, 3 * box.shape[3]))
            flat.append(ttnn.permute(box, (0, 2, 3, 1)))
        return ttnn.concat(flat, dim=2, memory_config=ttnn.L1_MEMORY_CONFIG), confidence

    def decoded(self, x: Any, cells: tuple[Any, Any], anchors: tuple[tuple[float, float], ...]) -> tuple[Any, Any]:
        """Corners of the boxes, (1, 4, 3, cells), and a confidence for each class, (1, 3 * cells, 80)."""
        ttnn = self.ttnn
        x = ttnn.to_memory_config(x, ttnn.L1_MEMORY_CONFIG)
        x = ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)
        x = ttnn.permute(x, (0, 1, 3, 2))
        count = x.shape[3]
        parts = [self.field(x, channel, 1) for channel in range(5)] + [self.field(x, 5, CLASSES)]
        across, down, width, height, object_, classes = (ttnn.to_layout(p, ttnn.TILE_LAYOUT) for p in parts)
        confidence = ttnn.multiply(ttnn.sigmoid(classes), ttnn.sigmoid(object_))
        confidence = ttnn.permute(confidence, (0, 1, 3, 2))
        confidence = ttnn.reshape(confidence, (1, 3 * count, CLASSES))
        width = self.scaled(ttnn.exp(width), [w for w, _ in anchors])
        height = self.scaled(ttnn.exp(height), [h for _, h in anchors])
        columns, rows = cells
        center_x, center_y = ttnn.add(ttnn.sigmoid(across), columns), ttnn.add(ttnn.sigmoid(down), rows)
        left = ttnn.subtract(center_x, ttnn.multiply(width, 0.5))
        top = ttnn.subtract(center_y, ttnn.multiply(height, 0.5))
        corners = [left, top, ttnn.add(left, width), ttnn.add(top, height)]
        corners = [ttnn.to_layout(c, ttnn.ROW_MAJOR_LAYOUT) for c in corners]
        boxes = ttnn.concat(corners, dim=2, memory_config=ttnn.L1_MEMORY_CONFIG)
        return ttnn.permute(boxes, (0, 2, 1, 3)), confidence

    def field(self, x: Any, first: int, channels: int) -> Any:
        """The same channels of all three anchors, one anchor a plane."""
        ttnn = self.ttnn
        count = x.shape[3]
        starts = [anchor * (CLASSES + 5) + first for anchor in range(3)]
        planes = [ttnn.slice(x, [0, 0, start, 0], [1, 1, start + channels, count]) for start in starts]
        return ttnn.concat(planes, dim=1, memory_config=ttnn.L1_MEMORY_CONFIG)

    def scaled(self, x: Any, factors: list[float]) -> Any:
        ttnn = self.ttnn
        count = x.shape[3]
        planes = [
            ttnn.multiply(ttnn.slice(x, [0, anchor, 0, 0], [1, anchor + 1, 1, count]), factor)
            for anchor, factor in enumerate(factors)
        ]
        return ttnn.concat(planes, dim=1, memory_config=ttnn.L1_MEMORY_CONFIG)

    def _cells(self, size: int) -> tuple[Any, Any]:
        """The column and the row of every cell."""
        ttnn = self.ttnn
        rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
        return tuple(
            ttnn.from_torch(
                numbers.reshape(1, 1, 1, -1).repeat(1, 3, 1, 1).to(torch.bfloat16),
                layout=ttnn.TILE_LAYOUT,
                device=self.device,
            )
            for numbers in (columns, rows)
        )
