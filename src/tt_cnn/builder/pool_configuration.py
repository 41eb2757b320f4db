# SPDX-License-Identifier: Apache-2.0
"""What max and average pools have in common: a window, and how TT-NN is to run it."""

from __future__ import annotations

from tt_cnn import ttnn
from tt_cnn.builder.convolution_configuration import BLOCK_FLOATS
from tt_cnn.builder.rules import Rule, border, flags, instance, pair, wholes
from tt_cnn.builder.slicing import any_slicing, divided_channels, only_channel_slicing
from tt_cnn.builder.windows import borders


def pool_rules(layer: str) -> tuple[Rule, ...]:
    return (
        *wholes("input_height", "input_width", "channels", "batch_size"),
        pair("kernel_size"),
        pair("stride"),
        border("padding"),
        *flags("ceil_mode", "deallocate_input", "reallocate_halo_output", "config_tensor_in_dram"),
        Rule(
            "padding",
            lambda c: all(p <= k // 2 for p, k in zip(borders(c.padding), _by_border(c.kernel_size), strict=True)),
            lambda c: f"at most half of kernel_size {c.kernel_size}",
        ),
        Rule("kernel_size", lambda c: min(c.output_size) >= 1, "no larger than the padded input"),
        instance("dtype", ttnn.DataType),
        instance("output_layout", ttnn.Layout),
        Rule(
            "output_layout",
            lambda c: c.output_layout == ttnn.TILE_LAYOUT or c.dtype not in BLOCK_FLOATS,
            lambda c: f"ttnn.TILE_LAYOUT with dtype {c.dtype}: block formats exist only as tiles",
        ),
        instance("applied_shard_scheme", None, ttnn.TensorMemoryLayout),
        any_slicing(),
        only_channel_slicing(layer),
        divided_channels("channels"),
    )


def _by_border(kernel: tuple[int, int]) -> tuple[int, int, int, int]:
    return kernel[0], kernel[0], kernel[1], kernel[1]
