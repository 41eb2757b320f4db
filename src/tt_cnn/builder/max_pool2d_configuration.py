# SPDX-License-Identifier: Apache-2.0
"""The configuration of a max pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.pool_configuration import pool_rules
from tt_cnn.builder.rules import flags, pair
from tt_cnn.builder.slicing import SliceStrategyConfiguration
from tt_cnn.builder.windows import window_output


@dataclass(frozen=True, eq=False)
class MaxPool2dConfiguration(ImageConfiguration):
    kernel_size: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, ...] = (0, 0)
    dilation: tuple[int, int] = (1, 1)
    ceil_mode: bool = False

    in_place: bool = False
    """Changes nothing: TT-NN 0.81 has no pool in place. Models written for earlier releases set it."""
    deallocate_input: bool = False
    reallocate_halo_output: bool = True

    dtype: Any = ttnn.bfloat16
    output_layout: Any = ttnn.ROW_MAJOR_LAYOUT

    slice_strategy: SliceStrategyConfiguration | None = None

    applied_shard_scheme: Any = None
    """How an input that is not sharded is spread over the cores; None leaves it to TT-NN."""
    config_tensor_in_dram: bool = False

    pairs = ("kernel_size", "stride", "padding", "dilation")
    rules = (pair("dilation"), *flags("in_place"), *pool_rules("MaxPool2d"))

    @property
    def output_size(self) -> tuple[int, int]:
        return window_output(self, self.dilation, self.ceil_mode)

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.MaxPool2d, input_hw: tuple[int, int]) -> dict[str, Any]:
        if torch_layer.return_indices:
            raise ValueError("torch_layer.return_indices is True; it must be False: the layer returns values only.")
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        return {name: getattr(torch_layer, name) for name in names}
