"""The configuration of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import as_tuple
from tt_cnn.builder.convolution_configuration import CONVOLUTION_RULES, ConvolutionConfiguration
from tt_cnn.builder.rules import Rule, instance
from tt_cnn.builder.windows import same_padding, window_output

PADDING_MODES = {"zeros": ttnn.PaddingMode.Zeros, "replicate": ttnn.PaddingMode.Replicate}


@dataclass(frozen=True, eq=False)
class Conv2dConfiguration(ConvolutionConfiguration):
    padding_mode: Any = ttnn.PaddingMode.Zeros

    rules = (
        *CONVOLUTION_RULES,
        instance("padding_mode", ttnn.PaddingMode),
        Rule(
            "kernel_size",
            lambda c: min(c.output_size) >= 1,
            "no larger than the padded input, dilation counted",
        ),
    )

    @staticmethod
    def channels_of_weight(in_channels: int, out_channels: int, groups: int) -> tuple[int, int]:
        return out_channels, in_channels // groups

    @property
    def output_size(self) -> tuple[int, int]:
        return window_output(self, self.dilation)

    @classmethod
    def shape_of_torch(cls, layer: torch.nn.Conv2d) -> dict[str, Any]:
        if layer.padding_mode not in PADDING_MODES:
            known = " or ".join(map(repr, PADDING_MODES))
            raise ValueError(f"torch_layer.padding_mode is {layer.padding_mode!r}; it must be {known}.")
        own = {"padding": _padding(layer), "padding_mode": PADDING_MODES[layer.padding_mode]}
        return {**super().shape_of_torch(layer), **own}

    @classmethod
    def from_model_args(cls, conv2d_args: Any, weights: Any, bias: Any = None, **settings: Any) -> Conv2dConfiguration:
        """From what `infer_ttnn_module_args` found out about the layer; `settings` override it."""
        names = ("input_height", "input_width", "in_channels", "out_channels", "batch_size")
        shape = {name: getattr(conv2d_args, name) for name in names}
        window = {n: getattr(conv2d_args, n) for n in ("kernel_size", "stride", "padding", "groups", "dilation")}
        dtype = {"output_dtype": conv2d_args.dtype}
        return cls(weight=weights, bias=bias, **{**shape, **window, **dtype, **settings})


def _padding(layer: torch.nn.Conv2d) -> tuple[int, ...]:
    """PyTorch also has words for it."""
    if layer.padding == "valid":
        return (0, 0)
    if layer.padding == "same":
        return same_padding(as_tuple(layer.kernel_size), as_tuple(layer.dilation))
    return as_tuple(layer.padding)
