# SPDX-License-Identifier: Apache-2.0
"""YOLOv5x as tt-metal's demo runs it (late 2025), planned: what its published figure is a figure of.

The project has no YOLOv5x of its own. Convolutions are height sharded but where the demo says otherwise, with double
buffers for activations alone and no accumulation in the packer; every concat untilizes its parts, which makes them
bfloat16, and joins them on 56 cores; sums are interleaved. The input's padding and permutation are not planned, and a
sum stands for the last 1x1 convolution of the decoding, as in `cost_yolov8x`.
"""

from __future__ import annotations

from math import gcd
from typing import Any

import torch
from cost_recording import convolution, steps_of

from tt_cnn import ttnn
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.planning.plan import Step

_SILU = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)
_CONCAT_CORES = 56
_L1 = ttnn.L1_MEMORY_CONFIG


def _grid(cores: int) -> Any:
    """Whole rows of eight, and what is left in the next."""
    rows, rest = divmod(cores, 8)
    ranges = [((0, 0), (7, rows - 1))] if rows else []
    ranges += [((0, rows), (rest - 1, rows))] if rest else []
    return ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(*a), ttnn.CoreCoord(*b)) for a, b in ranges})


def _height_shards(height: int, width: int, cores: int) -> Any:
    return ttnn.create_sharded_memory_config(
        (height, width), _grid(cores), ttnn.ShardStrategy.HEIGHT, use_height_and_width_as_shard_shape=True
    )


class _Demo:
    def __init__(self) -> None:
        self.device = PlanningCard("n150", l1_small_size=32768)
        self.compute = ttnn.init_device_compute_kernel_config(
            self.device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, math_approx_mode=False
        )

    def conv(
        self,
        x: Any,
        size: int,
        channels: tuple[int, int],
        kernel: int = 1,
        stride: int = 1,
        layout: str | None = "HEIGHT",
        *,
        one_dimension: bool = True,
        rows: int = 0,
        free: bool = False,
        active: bool = True,
    ) -> Any:
        """`one_dimension` is the demo's word for convolutions that may move their input to better shards."""
        config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b,
            activation=_SILU if active else None,
            shard_layout=getattr(ttnn.TensorMemoryLayout, f"{layout}_SHARDED") if layout else None,
            act_block_h_override=rows,
            deallocate_activation=free,
            reshard_if_not_optimal=one_dimension,
            enable_act_double_buffer=True,
        )
        window = kernel, stride, (kernel - 1) // 2
        return convolution(self.device, x, size, channels, window, config, self.compute)

    def joined(self, *parts: Any) -> Any:
        rows = [ttnn.to_layout(part, ttnn.ROW_MAJOR_LAYOUT) for part in parts]
        height = -(-rows[0].shape[2] // _CONCAT_CORES)
        width = rows[0].shape[-1]
        sharded = [ttnn.to_memory_config(row, _height_shards(height, width, _CONCAT_CORES)) for row in rows]
        target = _height_shards(height, width * len(parts), _CONCAT_CORES)
        return ttnn.concat(sharded, 3, memory_config=target)

    def c3(self, x: Any, size: int, channels: tuple[int, int], blocks: int, sums: bool, block: bool = False) -> Any:
        inputs, outputs = channels
        half = outputs // 2
        inner = self.conv(x, size, (inputs, half))
        layout = "BLOCK" if block else "HEIGHT"
        for _ in range(blocks):
            after = self.conv(inner, size, (half, half), layout=layout)
            after = self.conv(after, size, (half, half), 3, layout=layout)
            if block:
                after = ttnn.sharded_to_interleaved(after, _L1)
            inner = ttnn.add(inner, after) if sums else after
        beside = self.conv(x, size, (inputs, half))
        whole = ttnn.sharded_to_interleaved(self.joined(inner, beside), _L1)
        return self.conv(whole, size, (outputs, outputs), layout=None)

    def enlarged(self, x: Any, size: int) -> Any:
        channels = x.shape[-1]
        x = ttnn.reshape(ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT), (1, size, size, channels))
        pixels = size * size
        cores = pixels // gcd(pixels, size)
        while cores > 64 or pixels % cores or pixels // cores % size:
            cores -= 1
        config = _height_shards(pixels // cores, channels, cores)
        x = ttnn.to_memory_config(x, config)
        return ttnn.reshape(ttnn.upsample(x, (2, 2)), (1, 1, 4 * pixels, channels))

    def pooled(self, x: Any) -> Any:
        x = self.conv(x, 20, (1280, 640), layout="BLOCK", one_dimension=False)
        parts = [ttnn.to_layout(ttnn.sharded_to_interleaved(x, _L1), ttnn.ROW_MAJOR_LAYOUT)]
        for _ in range(3):
            if parts[-1].is_sharded():
                parts[-1] = ttnn.sharded_to_interleaved(parts[-1], ttnn.DRAM_MEMORY_CONFIG)
            pool = ttnn.max_pool2d(
                parts[-1],
                1,
                20,
                20,
                640,
                [5, 5],
                [1, 1],
                [2, 2],
                [1, 1],
                applied_shard_scheme=ttnn.TensorMemoryLayout.HEIGHT_SHARDED,
            )
            parts.append(pool)
        return self.conv(self.joined(*parts), 20, (2560, 1280), layout="WIDTH")

    def __call__(self, image: Any) -> None:
        x = self.conv(image, 640, (16, 80), 6, 2, rows=64, free=True)
        x = self.conv(x, 320, (80, 160), 3, 2, free=True)
        x = self.c3(x, 160, (160, 160), 4, True)
        x = self.conv(x, 160, (160, 320), 3, 2)
        four = self.c3(x, 80, (320, 320), 8, True)
        x = self.conv(four, 80, (320, 640), 3, 2)
        six = self.c3(x, 40, (640, 640), 12, True)
        x = self.conv(six, 40, (640, 1280), 3, 2, "BLOCK", one_dimension=False)
        x = self.c3(x, 20, (1280, 1280), 4, True, block=True)
        ten = self.conv(self.pooled(x), 20, (1280, 640))
        x = self.joined(self.enlarged(ten, 20), six)
        del six
        x = self.c3(x, 40, (1280, 640), 4, False)
        fourteen = self.conv(x, 40, (640, 320))
        x = self.joined(self.enlarged(fourteen, 40), four)
        del four
        seventeen = self.c3(x, 80, (640, 320), 4, False)
        x = self.joined(self.conv(seventeen, 80, (320, 320), 3, 2), fourteen)
        del fourteen
        twenty = self.c3(x, 40, (640, 640), 4, False)
        x = self.conv(twenty, 40, (640, 640), 3, 2, "BLOCK", one_dimension=False)
        x = self.joined(ttnn.sharded_to_interleaved(x, _L1), ten)
        del ten
        last = self.c3(x, 20, (1280, 1280), 4, False, block=True)
        del x
        self.detected([(seventeen, 80, 320), (twenty, 40, 640), (last, 20, 1280)])

    def branch(self, x: Any, size: int, inputs: int, width: int, outputs: int, block: bool = False) -> Any:
        first = {"layout": "BLOCK", "one_dimension": False} if block else {}
        x = self.conv(x, size, (inputs, width), 3, **first)
        x = self.conv(x, size, (width, width), 3)
        return self.conv(x, size, (width, outputs), active=False)

    def detected(self, maps: list[tuple[Any, int, int]]) -> None:
        boxes = [self.branch(x, size, channels, 80, 64) for x, size, channels in maps]
        boxes[0] = ttnn.to_memory_config(boxes[0], ttnn.DRAM_MEMORY_CONFIG)
        found = []
        for (x, size, channels), box in zip(maps, boxes, strict=True):
            classes = self.branch(x, size, channels, 320, 80, block=size == 20)
            near = [ttnn.sharded_to_interleaved(t, _L1) if t.is_sharded() else t for t in (box, classes)]
            found.append(ttnn.concat(near, 3, memory_config=_L1))
        del boxes, maps
        whole = ttnn.concat(found, 2, memory_config=_L1)
        points = whole.shape[2]
        boxes_part = ttnn.slice(whole, [0, 0, 0, 0], [1, 1, points, 64])
        classes_part = ttnn.slice(whole, [0, 0, 0, 64], [1, 1, points, 144])
        spread = ttnn.reshape(ttnn.permute(boxes_part, (0, 1, 3, 2)), (1, 4, 16, points))
        spread = ttnn.permute(ttnn.softmax(spread, dim=2, memory_config=_L1), (0, 1, 3, 2))
        sides = ttnn.reshape(ttnn.permute(ttnn.sum(spread, dim=-1, keepdim=True), (0, 1, 3, 2)), (1, 4, points))
        low, high = (ttnn.slice(sides, [0, at, 0], [1, at + 2, points]) for at in (0, 2))
        low, high = ttnn.subtract(low, 1.0), ttnn.add(high, 1.0)
        extent, centre = ttnn.subtract(high, low), ttnn.multiply(ttnn.add(low, high), 0.5)
        decoded = ttnn.multiply(ttnn.concat([centre, extent], 1), 8.0)
        scores = ttnn.sigmoid(ttnn.permute(ttnn.reshape(classes_part, (1, points, 80)), (0, 2, 1)))
        ttnn.concat((decoded, scores), 1)


def demo_steps() -> list[Step]:
    """Steps of a pass. Weights come from the host in every call, and that dispatches nothing."""
    demo = _Demo()
    config = _height_shards(6400, 16, 64)
    image = ttnn.from_torch(
        torch.zeros(1, 1, 640 * 640, 16), dtype=ttnn.bfloat16, device=demo.device, memory_config=config
    )
    with steps_of(demo.device) as steps:
        demo(image)
    return steps
