# SPDX-License-Identifier: Apache-2.0
"""The configuration of an upsampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.rules import Rule, flags, instance, one_of, pair, wholes
from tt_cnn.builder.slicing import SliceStrategyConfiguration, any_slicing, divided_channels, only_channel_slicing

MODES = ("nearest", "bilinear")


@dataclass(frozen=True, eq=False)
class UpsampleConfiguration(ImageConfiguration):
    scale_factor: tuple[int, int]
    mode: str = "nearest"

    slice_strategy: SliceStrategyConfiguration | None = None

    output_layout: Any = ttnn.ROW_MAJOR_LAYOUT
    """Rows come as images (N, H, W, C), tiles as flattened pixels (1, 1, N*H*W, C)."""
    output_dtype: Any = None
    """Of tiles; None: bfloat16, which rows always are."""
    memory_config: Any = None
    """None: where TT-NN leaves them."""
    deallocate_input: bool = False

    rules = (
        *wholes("input_height", "input_width", "channels", "batch_size"),
        any_slicing(),
        only_channel_slicing("Upsample"),
        divided_channels("channels"),
        Rule(
            "scale_factor",
            lambda c: pair("scale_factor").holds(c),
            "(height, width), whole numbers of at least 1",
            "TT-NN enlarges images by whole factors alone; pools make them smaller.",
        ),
        one_of("mode", MODES, f"Mode must be one of {', '.join(MODES)}."),
        instance("output_layout", ttnn.Layout),
        instance("output_dtype", None, ttnn.DataType),
        Rule(
            "output_dtype",
            lambda c: c.output_dtype in (None, ttnn.bfloat16) or c.output_layout == ttnn.TILE_LAYOUT,
            "None or ttnn.bfloat16 with an output in rows",
        ),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale_factor", _whole_pair(self.scale_factor))
        super().__post_init__()

    @property
    def output_size(self) -> tuple[int, int]:
        return self.input_height * self.scale_factor[0], self.input_width * self.scale_factor[1]

    @staticmethod
    def shape_of_torch(torch_layer: torch.nn.Upsample, input_hw: tuple[int, int]) -> dict[str, Any]:
        if torch_layer.align_corners:
            raise ValueError("torch_layer.align_corners is True; it must be False or None: TT-NN has no other form.")
        scale: Any = torch_layer.scale_factor
        if scale is None:
            height, width = _whole_pair(torch_layer.size)
            scale = (height / input_hw[0], width / input_hw[1])
        return {"scale_factor": scale, "mode": torch_layer.mode}


def _whole_pair(value: Any) -> Any:
    """One number for both directions, and 2.0 (PyTorch keeps floats) as 2; the rules judge the rest."""
    values = (value, value) if isinstance(value, (int, float)) else value
    if not isinstance(values, (list, tuple)):
        return values
    return tuple(int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
