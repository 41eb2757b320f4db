# SPDX-License-Identifier: Apache-2.0
"""The configurations of a pixel shuffle (channels become pixels) and of its inverse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.rules import Rule, flags, instance, whole, wholes
from tt_cnn.builder.sharding import ShardedStrategyConfiguration

_RUNNING_RULES = (
    *wholes("input_height", "input_width", "channels", "batch_size"),
    instance("output_dtype", ttnn.DataType),
    instance("sharding_strategy", None, ShardedStrategyConfiguration),
    instance("memory_config", None, ttnn.MemoryConfig),
    *flags("deallocate_input"),
)


@dataclass(frozen=True, eq=False)
class PixelShuffleConfiguration(ImageConfiguration):
    """`channels` are those of the input."""

    upscale_factor: int
    output_dtype: Any = ttnn.bfloat16
    sharding_strategy: ShardedStrategyConfiguration | None = None
    """Of the transposed convolution that it runs as. None: height shards in small blocks, or TT-NN's choice where
    their weights would fill L1."""
    memory_config: Any = None
    """None: where TT-NN leaves the output."""
    deallocate_input: bool = False

    rules = (
        *_RUNNING_RULES,
        whole("upscale_factor"),
        Rule(
            "channels",
            lambda c: c.channels % c.upscale_factor**2 == 0,
            lambda c: f"a multiple of {c.upscale_factor**2}, the pixels that one becomes",
        ),
    )

    @property
    def output_channels(self) -> int:
        return self.channels // self.upscale_factor**2

    @property
    def output_size(self) -> tuple[int, int]:
        return self.input_height * self.upscale_factor, self.input_width * self.upscale_factor

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.PixelShuffle, input_hw: tuple[int, int]) -> dict[str, Any]:
        return {"upscale_factor": torch_layer.upscale_factor}


@dataclass(frozen=True, eq=False)
class PixelUnshuffleConfiguration(ImageConfiguration):
    """`channels` are those of the input."""

    downscale_factor: int
    output_dtype: Any = ttnn.bfloat16
    sharding_strategy: ShardedStrategyConfiguration | None = None
    """Of the convolution that it runs as; None: TT-NN's choice."""
    memory_config: Any = None
    """None: where TT-NN leaves the output."""
    deallocate_input: bool = False

    rules = (
        *_RUNNING_RULES,
        whole("downscale_factor"),
        *(
            Rule(
                side,
                lambda c, side=side: getattr(c, side) % c.downscale_factor == 0,  # type: ignore[misc]
                lambda c: f"a multiple of downscale_factor ({c.downscale_factor})",
            )
            for side in ("input_height", "input_width")
        ),
    )

    @property
    def output_channels(self) -> int:
        return self.channels * self.downscale_factor**2

    @property
    def output_size(self) -> tuple[int, int]:
        return self.input_height // self.downscale_factor, self.input_width // self.downscale_factor

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.PixelUnshuffle, input_hw: tuple[int, int]) -> dict[str, Any]:
        return {"downscale_factor": torch_layer.downscale_factor}
