# SPDX-License-Identifier: Apache-2.0
"""YOLOv8x as tt-metal's demo runs it, planned: what its published figure is a figure of.

Ours keeps everything in shards. The demo (late 2025) takes C2f blocks through interleaved L1: both halves, every sum
and the joined parts; shards again before each convolution; moves every output (`reallocate`); keeps the neck's maps
in DRAM; fetches the weights of the 40x40 blocks through one core (height shards); does not accumulate in the packer and
has one buffer where blocks are height sharded; and decodes boxes on the card, through reshapes, permutes and a softmax.
The input's padding and permutation are not planned, and a sum stands for the last 1x1 convolution of the decoding.
"""

from __future__ import annotations

from typing import Any

import torch
from cost_recording import convolution, steps_of

from tt_cnn import ttnn
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.planning.plan import Step

_SILU = ttnn.UnaryWithParam(ttnn.UnaryOpType.SILU)


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
        inputs: int,
        outputs: int,
        kernel: int = 1,
        stride: int = 1,
        *,
        layout: str | None = "HEIGHT",
        rows: int = 0,
        reshard: bool = False,
        last: bool = False,
    ) -> Any:
        block = layout == "BLOCK"
        config = ttnn.Conv2dConfig(
            weights_dtype=ttnn.bfloat8_b,
            activation=None if last else _SILU,
            shard_layout=getattr(ttnn.TensorMemoryLayout, f"{layout}_SHARDED") if layout else None,
            act_block_h_override=rows,
            enable_act_double_buffer=block,
            enable_weights_double_buffer=block,
            reallocate_halo_output=False,
            reshard_if_not_optimal=reshard,
        )
        window = kernel, stride, kernel // 2
        output = convolution(self.device, x, size, (inputs, outputs), window, config, self.compute)
        return ttnn.sharded_to_interleaved(output, ttnn.L1_MEMORY_CONFIG) if last else ttnn.reallocate(output)

    def c2f(
        self,
        x: Any,
        size: int,
        inputs: int,
        outputs: int,
        blocks: int,
        sums: bool,
        layout: str | None = "HEIGHT",
        joined: str | None = None,
        reshard: bool = False,
    ) -> Any:
        half = outputs // 2
        first = "HEIGHT" if layout == "BLOCK" else layout
        parts = []
        for _ in range(2):
            part = self.conv(x, size, inputs, half, layout=first, reshard=reshard)
            parts.append(ttnn.to_memory_config(part, ttnn.L1_MEMORY_CONFIG))
        for _ in range(blocks):
            inner = self.conv(parts[-1], size, half, half, 3, layout=layout)
            inner = self.conv(inner, size, half, half, 3, layout=layout)
            if sums:
                inner = ttnn.add(parts[-1], inner, memory_config=ttnn.L1_MEMORY_CONFIG)
            else:
                inner = ttnn.sharded_to_interleaved(inner, ttnn.L1_MEMORY_CONFIG)
            parts.append(inner)
        whole = ttnn.concat(parts, 3)
        del parts
        return self.conv(whole, size, half * (blocks + 2), outputs, layout=joined or layout, reshard=joined is not None)

    def rows(self, x: Any) -> Any:
        return ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)

    def joined(self, parts: list[Any], interleaved: bool = False) -> Any:
        height = -(-parts[0].shape[2] // 64)

        def shards(width: int) -> Any:
            return ttnn.create_sharded_memory_config(
                (height, width),
                ttnn.CoreGrid(x=8, y=8),
                ttnn.ShardStrategy.HEIGHT,
                use_height_and_width_as_shard_shape=True,
            )

        sharded = [ttnn.to_memory_config(part, shards(part.shape[-1])) for part in parts]
        output = ttnn.concat(sharded, 3, memory_config=shards(sum(part.shape[-1] for part in parts)))
        return ttnn.sharded_to_interleaved(output, ttnn.L1_MEMORY_CONFIG) if interleaved else output

    def enlarged(self, x: Any, size: int) -> Any:
        channels = x.shape[-1]
        x = ttnn.reshape(x, (1, size, size, channels))
        cores = 40 if size == 40 else 20
        grid = ttnn.CoreGrid(x=8, y=5) if cores == 40 else ttnn.CoreGrid(x=5, y=4)
        config = ttnn.create_sharded_memory_config(
            (size * size // cores, channels), grid, ttnn.ShardStrategy.HEIGHT, use_height_and_width_as_shard_shape=True
        )
        x = ttnn.to_memory_config(x, config)
        x = ttnn.upsample(x, (2, 2), memory_config=x.memory_config())
        return ttnn.reshape(x, (1, 1, 4 * size * size, channels))

    def kept(self, x: Any) -> Any:
        x = ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG)
        return ttnn.clone(x, dtype=ttnn.bfloat16, memory_config=ttnn.DRAM_MEMORY_CONFIG)

    def branch(self, x: Any, size: int, inputs: int, width: int, outputs: int, layout: str) -> Any:
        x = self.conv(x, size, inputs, width, 3)
        x = self.conv(x, size, width, width, 3, layout=layout)
        return self.conv(x, size, width, outputs, layout=layout if layout == "BLOCK" else None, last=True)

    def __call__(self, image: Any) -> None:
        x = self.conv(image, 640, 16, 80, 3, 2, rows=32)
        ttnn.deallocate(image)
        x = self.conv(x, 320, 80, 160, 3, 2, layout="BLOCK", rows=32)
        x = self.c2f(x, 160, 160, 160, 3, True)
        x = self.conv(x, 160, 160, 320, 3, 2)
        four = self.c2f(x, 80, 320, 320, 6, True)
        x = self.conv(four, 80, 320, 640, 3, 2, layout="BLOCK", reshard=True)
        six = self.c2f(x, 40, 640, 640, 6, True, joined="BLOCK")
        x = self.conv(six, 40, 640, 640, 3, 2, layout="BLOCK", reshard=True)
        x = self.c2f(x, 20, 640, 640, 3, True, "BLOCK", joined="BLOCK")
        pools = [self.conv(x, 20, 640, 320)]
        for _ in range(3):
            pools.append(ttnn.max_pool2d(pools[-1], 1, 20, 20, 320, [5, 5], [1, 1], [2, 2], [1, 1]))
        del x
        pools[0] = self.rows(ttnn.sharded_to_interleaved(pools[0], ttnn.L1_MEMORY_CONFIG))
        nine = self.conv(self.joined(pools, True), 20, 1280, 640)
        del pools
        x = self.joined([self.enlarged(self.rows(nine), 20), self.rows(six)])
        del six
        x = self.c2f(x, 40, 1280, 640, 3, False, "BLOCK", reshard=True)
        x = self.rows(ttnn.sharded_to_interleaved(x, ttnn.L1_MEMORY_CONFIG))
        twelve = ttnn.clone(x, dtype=ttnn.bfloat16, memory_config=ttnn.DRAM_MEMORY_CONFIG)
        x = self.joined([self.enlarged(x, 40), self.rows(four)])
        del four
        x = self.c2f(x, 80, 960, 320, 3, False, reshard=True)
        sixteen = self.conv(x, 80, 320, 320, 3, 2, layout="BLOCK", reshard=True)
        fifteen = self.kept(x)
        x = self.joined([self.rows(ttnn.sharded_to_interleaved(sixteen, ttnn.L1_MEMORY_CONFIG)), twelve])
        del sixteen, twelve
        x = self.c2f(x, 40, 960, 640, 3, False, "BLOCK", reshard=True)
        nineteen = self.conv(x, 40, 640, 640, 3, 2, layout="BLOCK")
        eighteen = self.kept(x)
        parts = [self.rows(ttnn.sharded_to_interleaved(nineteen, ttnn.L1_MEMORY_CONFIG)), self.rows(nine)]
        x = self.joined(parts, True)
        del parts, nineteen, nine
        x = self.c2f(x, 20, 1280, 640, 3, False, None)
        maps = []
        for scale, (one, size, channels) in enumerate(((fifteen, 80, 320), (eighteen, 40, 640), (x, 20, 640))):
            layout = "BLOCK" if scale else "HEIGHT"
            boxes = self.branch(one, size, channels, 80, 64, layout)
            classes = self.branch(one, size, channels, 320, 80, layout)
            maps.append(ttnn.concat((boxes, classes), dim=3))
        self.decode(maps)

    def decode(self, maps: list[Any]) -> None:
        near = {"memory_config": ttnn.L1_MEMORY_CONFIG}
        whole = ttnn.concat([ttnn.reshape(m, (1, m.shape[2], 144)) for m in maps], 1, **near)
        whole = ttnn.permute(whole, (0, 2, 1), **near)
        points = whole.shape[2]
        boxes = ttnn.slice(whole, [0, 0, 0], [1, 64, points], **near)
        classes = ttnn.slice(whole, [0, 64, 0], [1, 144, points], **near)
        boxes = ttnn.permute(ttnn.reshape(boxes, (1, 4, 16, points), **near), (0, 1, 3, 2), **near)
        boxes = ttnn.softmax(ttnn.to_layout(boxes, ttnn.TILE_LAYOUT), dim=-1)
        boxes = ttnn.permute(ttnn.sum(boxes, dim=-1, keepdim=True), (0, 1, 3, 2))
        boxes = ttnn.reshape(boxes, (1, 4, points))
        low, high = (ttnn.slice(boxes, [0, at, 0], [1, at + 2, points], **near) for at in (0, 2))
        centre, extent = ttnn.add(low, high), ttnn.subtract(high, low)
        boxes = ttnn.multiply(ttnn.concat([centre, extent], 1), 8.0)
        ttnn.concat((boxes, ttnn.sigmoid(classes)), dim=1)


def demo_steps() -> list[Step]:
    """Steps of a pass. Weights come from the host in every call, and that dispatches nothing."""
    demo = _Demo()
    config = ttnn.create_sharded_memory_config(
        (6400, 16), ttnn.CoreGrid(x=8, y=8), ttnn.ShardStrategy.HEIGHT, use_height_and_width_as_shard_shape=True
    )
    image = ttnn.from_torch(
        torch.zeros(1, 1, 640 * 640, 16), dtype=ttnn.bfloat16, device=demo.device, memory_config=config
    )
    with steps_of(demo.device) as steps:
        demo(image)
    return steps
