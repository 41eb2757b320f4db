"""The configuration of an upsampling."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.rules import Rule, one_of, pair, wholes
from tt_cnn.builder.slicing import (
    SliceStrategyConfiguration,
    any_slicing,
    channel_slices,
    divided_channels,
    only_channel_slicing,
)

MODES = ("nearest", "bilinear")
BILINEAR_CHANNELS = 32
"""TT-NN's bilinear kernel works on whole tiles of channels."""


@dataclass(frozen=True, eq=False)
class UpsampleConfiguration(ImageConfiguration):
    scale_factor: tuple[int, int]
    mode: str = "nearest"

    slice_strategy: SliceStrategyConfiguration | None = None

    rules = (
        *wholes("input_height", "input_width", "channels", "batch_size"),
        any_slicing(),
        only_channel_slicing("Upsample"),
        divided_channels("channels"),
        pair("scale_factor"),
        one_of("mode", MODES, f"Mode must be one of {', '.join(MODES)}."),
        Rule(
            "channels",
            lambda c: c.mode != "bilinear" or c.channels % (BILINEAR_CHANNELS * channel_slices(c.slice_strategy)) == 0,
            lambda c: (
                f"a multiple of {BILINEAR_CHANNELS} in each of {channel_slices(c.slice_strategy)} slice(s) "
                "with mode 'bilinear'"
            ),
        ),
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
