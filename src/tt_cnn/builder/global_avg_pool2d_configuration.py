# SPDX-License-Identifier: Apache-2.0
"""The configuration of an average over whole images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import as_tuple
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.rules import flags, instance, wholes


@dataclass(frozen=True, eq=False)
class GlobalAvgPool2dConfiguration(ImageConfiguration):
    dtype: Any = None
    """None keeps the input's; without `as_mean`, averages of block formats are bfloat16."""
    memory_config: Any = None
    as_mean: bool = False
    """Average the flattened tiles with `ttnn.mean` or a product: nothing is brought to rows for it."""
    as_rows: bool = False
    """An output of (1, 1, N, C), as linear layers take it, in place of (N, 1, 1, C)."""

    rules = (
        *wholes("input_height", "input_width", "channels", "batch_size"),
        instance("dtype", None, ttnn.DataType),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("as_mean", "as_rows"),
    )

    @property
    def output_size(self) -> tuple[int, int]:
        return (1, 1)

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.AdaptiveAvgPool2d, input_hw: tuple[int, int]) -> dict[str, Any]:
        if as_tuple(torch_layer.output_size) != (1, 1):
            raise ValueError(f"torch_layer.output_size is {torch_layer.output_size!r}; it must be 1 or (1, 1).")
        return {}
