# SPDX-License-Identifier: Apache-2.0
"""The configuration of an average pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.pool_configuration import pool_rules
from tt_cnn.builder.rules import Rule, flags, instance, is_whole
from tt_cnn.builder.slicing import SliceStrategyConfiguration
from tt_cnn.builder.windows import window_output


@dataclass(frozen=True, eq=False)
class AvgPool2dConfiguration(ImageConfiguration):
    kernel_size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    ceil_mode: bool = False
    count_include_pad: bool = True
    divisor_override: int | None = None

    deallocate_input: bool = False
    reallocate_halo_output: bool = True

    dtype: Any = ttnn.bfloat16
    output_layout: Any = ttnn.ROW_MAJOR_LAYOUT

    math_fidelity: Any = ttnn.MathFidelity.HiFi4
    """Full by default: the weights of the average (1/9, say) have no short form."""
    fp32_dest_acc_en: bool = False
    packer_l1_acc: bool = False

    slice_strategy: SliceStrategyConfiguration | None = None

    applied_shard_scheme: Any = None
    """How an input that is not sharded is spread over the cores; None leaves it to TT-NN."""
    config_tensor_in_dram: bool = False

    as_mean: bool = False
    """Average whole images in tiles, with `ttnn.mean` or a product: nothing is brought to rows for it. The output is
    interleaved in L1."""

    pairs = ("kernel_size", "stride", "padding")
    rules = (
        *flags("count_include_pad", "fp32_dest_acc_en", "packer_l1_acc", "as_mean"),
        *pool_rules("AvgPool2d"),
        Rule(
            "divisor_override",
            lambda c: c.divisor_override is None or is_whole(c.divisor_override, 1),
            "None or a whole number, at least 1",
        ),
        instance("math_fidelity", ttnn.MathFidelity),
        Rule("as_mean", lambda c: not c.as_mean or c.averages_images, "False where the window is no whole image"),
    )

    @property
    def averages_images(self) -> bool:
        """Whether the window is the image, with nothing around it and nothing cut."""
        whole = self.kernel_size == (self.input_height, self.input_width) and not any(self.padding)
        return whole and self.divisor_override is None and self.slice_strategy is None

    @property
    def output_size(self) -> tuple[int, int]:
        return window_output(self, ceil=self.ceil_mode)

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.AvgPool2d, input_hw: tuple[int, int]) -> dict[str, Any]:
        names = ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override")
        return {name: getattr(torch_layer, name) for name in names}
