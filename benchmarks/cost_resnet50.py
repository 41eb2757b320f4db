# SPDX-License-Identifier: Apache-2.0
"""ResNet50 as tt-metal runs it on an n150 (2026), planned: what its published figure is a figure of.

Ours differs in the convolutions' settings: upstream reuses activations in the first convolution and in that of the
first bottleneck, gathers all kernel rows of block shards at once (`full_inner_dim`), brings the larger image to tiles
after the pool, and ends with an untilize.
"""

from __future__ import annotations

from typing import Any

import torch
from cost_recording import steps_of

from tt_cnn import ttnn
from tt_cnn.models.registry import create_tt, model_entry
from tt_cnn.models.resnet50.tt.model import TtResNet50
from tt_cnn.reports.recording import PlanningCard
from tt_cnn.virtual.planning.plan import Step

_RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
_BATCH = 16
_LAYERS = ((64, 3), (128, 4), (256, 6), (512, 3))
_LAYOUTS = ttnn.TensorMemoryLayout
_TALL_BLOCK = 14 * 32
_FIRST_BLOCK = 49 * 32


class _Demo:
    def __init__(self, device: Any, ours: TtResNet50) -> None:
        self.device, self.stem = device, ours.stem
        self.compute = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.LoFi, packer_l1_acc=True
        )

    def conv(
        self, x: Any, size: int, inputs: int, outputs: int, kernel: int, stride: int, padding: int, **settings: Any
    ) -> Any:
        return ttnn.conv2d(
            input_tensor=x,
            weight_tensor=ttnn.from_torch(torch.zeros(outputs, inputs, kernel, kernel), dtype=ttnn.float32),
            bias_tensor=ttnn.from_torch(torch.zeros(1, 1, 1, outputs), dtype=ttnn.float32),
            device=self.device,
            in_channels=inputs,
            out_channels=outputs,
            batch_size=_BATCH,
            input_height=size,
            input_width=size,
            kernel_size=(kernel, kernel),
            stride=(stride, stride),
            padding=(padding, padding),
            conv_config=ttnn.Conv2dConfig(weights_dtype=ttnn.bfloat8_b, reshard_if_not_optimal=False, **settings),
            compute_config=self.compute,
            dtype=ttnn.bfloat8_b,
        )

    def bottleneck(self, x: Any, size: int, channels: int, layer: int, index: int) -> Any:
        """Only the first of a layer says that it is height sharded; the others take their input as it is."""
        inputs = x.shape[-1]
        stride = 2 if index == 0 and layer > 1 else 1
        layout = _LAYOUTS.HEIGHT_SHARDED if index == 0 and layer <= 2 else _LAYOUTS.BLOCK_SHARDED
        reuses = layer == 1 and index == 0
        out = self.conv(x, size, inputs, channels, 1, 1, 0, activation=_RELU, shard_layout=layout)
        out = self.conv(
            out,
            size,
            channels,
            channels,
            3,
            stride,
            1,
            activation=_RELU,
            shard_layout=layout,
            deallocate_activation=True,
            reallocate_halo_output=False,
            act_block_h_override=_TALL_BLOCK if layer == 1 and index > 0 else 0,
            enable_act_double_buffer=True,
            enable_weights_double_buffer=True,
            full_inner_dim=True,
            enable_activation_reuse=reuses,
        )
        out = self.conv(
            out, size // stride, channels, 4 * channels, 1, 1, 0, shard_layout=layout, deallocate_activation=True
        )
        if index == 0:
            x = self.conv(
                x,
                size,
                inputs,
                4 * channels,
                1,
                stride,
                0,
                shard_layout=layout,
                deallocate_activation=True,
                reallocate_halo_output=False,
                enable_act_double_buffer=True,
                enable_weights_double_buffer=size < 56,
                full_inner_dim=True,
                enable_activation_reuse=reuses,
            )
        if x.memory_config() != out.memory_config():
            x = ttnn.to_memory_config(x, out.memory_config())
        out = ttnn.add_(out, x, activations=[_RELU])
        ttnn.deallocate(x)
        return out

    def __call__(self, planes: Any) -> Any:
        patches = self.stem.patches(planes)
        ttnn.deallocate(planes)
        x = self.conv(
            patches,
            115,
            16,
            64,
            4,
            1,
            0,
            activation=_RELU,
            shard_layout=_LAYOUTS.HEIGHT_SHARDED,
            deallocate_activation=True,
            act_block_h_override=_FIRST_BLOCK,
            enable_act_double_buffer=True,
            enable_activation_reuse=True,
        )
        x = ttnn.max_pool2d(x, _BATCH, 112, 112, 64, [3, 3], [2, 2], [1, 1], [1, 1])
        x = ttnn.to_memory_config(x, self.shards(x, (8, 7), ttnn.ShardStrategy.HEIGHT))
        x = ttnn.to_layout(x, ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b)
        size = 56
        for layer, (channels, blocks) in enumerate(_LAYERS, start=1):
            if layer > 2:
                x = ttnn.to_memory_config(x, self.shards(x, (8, 8 if layer == 3 else 7), ttnn.ShardStrategy.BLOCK))
            for index in range(blocks):
                x = self.bottleneck(x, size, channels, layer, index)
                size //= 2 if index == 0 and layer > 1 else 1
        return self.head(x)

    def head(self, x: Any) -> Any:
        x = ttnn.to_memory_config(x, self.shards(x, (8, 8), ttnn.ShardStrategy.WIDTH))
        x = ttnn.avg_pool2d(
            x, _BATCH, 7, 7, 2048, [7, 7], [1, 1], [0, 0, 0, 0], output_layout=ttnn.TILE_LAYOUT, dtype=ttnn.bfloat8_b
        )
        x = ttnn.to_memory_config(x, self.shards(x, (8, 4), ttnn.ShardStrategy.WIDTH))
        weight = ttnn.empty([1, 1, 2048, 1024], ttnn.bfloat8_b, ttnn.TILE_LAYOUT, device=self.device)
        bias = ttnn.empty([1, 1, 1, 1024], ttnn.bfloat8_b, ttnn.TILE_LAYOUT, device=self.device)
        program = ttnn.MatmulMultiCoreReuseMultiCast1DProgramConfig(
            compute_with_storage_grid_size=(8, 4),
            in0_block_w=2,
            out_subblock_h=1,
            out_subblock_w=1,
            per_core_M=1,
            per_core_N=1,
            fuse_batch=True,
            fused_activation=None,
            mcast_in0=True,
        )
        x = ttnn.linear(
            x,
            weight,
            bias=bias,
            program_config=program,
            memory_config=ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG,
            dtype=ttnn.bfloat8_b,
            compute_kernel_config=self.compute,
        )
        return ttnn.untilize_with_unpadding(x, (0, 0, _BATCH - 1, 999), memory_config=ttnn.L1_MEMORY_CONFIG)

    def shards(self, x: Any, grid: tuple[int, int], strategy: Any) -> Any:
        """Whole tiles on all cores of a grid."""
        columns, rows = grid
        height, width = x.shape[2], x.shape[3]
        if strategy is ttnn.ShardStrategy.BLOCK:
            shape = -(-height // rows), width // columns
        elif strategy is ttnn.ShardStrategy.WIDTH:
            shape = height, width // (columns * rows)
        else:
            shape = -(-height // (columns * rows)), width
        return ttnn.create_sharded_memory_config(
            (-(-shape[0] // 32) * 32, shape[1]),
            ttnn.CoreGrid(x=columns, y=rows),
            strategy,
            use_height_and_width_as_shard_shape=True,
        )


def demo_steps() -> list[Step]:
    entry = model_entry("resnet50")
    device = PlanningCard("n150", l1_small_size=entry.l1_small_size)
    try:
        ours = create_tt("resnet50", device, entry.reference().eval(), resolution=(224, 224), batch_size=_BATCH)
        host = ours.to_host_input(torch.zeros(_BATCH, 3, 224, 224))
        kept = ttnn.to_device(host, device, memory_config=ours.dram_input_memory_config)
        demo = _Demo(device, ours)
        planes = ttnn.to_memory_config(kept, ours.l1_input_memory_config)
        with steps_of(device) as steps:
            demo(planes)
        return steps
    finally:
        device.close()
