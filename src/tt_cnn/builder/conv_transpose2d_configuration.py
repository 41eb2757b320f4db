# SPDX-License-Identifier: Apache-2.0
"""The configuration of a transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.builder.convolution_configuration import CONVOLUTION_RULES, ConvolutionConfiguration
from tt_cnn.builder.rules import Rule, flags, pair
from tt_cnn.builder.windows import transposed_output


@dataclass(frozen=True, eq=False)
class ConvTranspose2dConfiguration(ConvolutionConfiguration):
    output_padding: tuple[int, int] = (0, 0)
    mirror_kernel: bool = True
    """TT-NN runs it as a convolution with the kernel turned by 180 degrees; False when the weight already is."""

    pairs = (*ConvolutionConfiguration.pairs, "output_padding")
    rules = (
        *CONVOLUTION_RULES,
        pair("output_padding", at_least=0),
        *flags("mirror_kernel"),
        Rule(
            "output_padding",
            lambda c: all(o < max(s, d) for o, s, d in zip(c.output_padding, c.stride, c.dilation, strict=True)),
            "smaller than stride or dilation",
        ),
        Rule("padding", lambda c: min(c.output_size) >= 1, "small enough to leave an output"),
    )

    @staticmethod
    def channels_of_weight(in_channels: int, out_channels: int, groups: int) -> tuple[int, int]:
        return in_channels, out_channels // groups

    @property
    def output_size(self) -> tuple[int, int]:
        return transposed_output(self)

    @classmethod
    def shape_of_torch(cls, layer: torch.nn.ConvTranspose2d) -> dict[str, Any]:
        return {**super().shape_of_torch(layer), "output_padding": layer.output_padding}
