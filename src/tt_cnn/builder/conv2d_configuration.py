# SPDX-License-Identifier: Apache-2.0
"""The configuration of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import as_tuple
from tt_cnn.builder.convolution_configuration import CONVOLUTION_RULES, ConvolutionConfiguration
from tt_cnn.builder.rules import Rule, instance
from tt_cnn.builder.windows import borders, convolved, same_padding, shortened, taps_in_use, window_output

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
    def from_torch(
        cls,
        torch_layer: Any,
        input_height: int,
        input_width: int,
        batch_size: int,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> Conv2dConfiguration:
        """The same layer: shape and weights from PyTorch's, all else from `settings`.

        Taps of the kernel that see nothing but the border of zeros, as those of wide dilations do, are left out.
        """
        layer = _without_blind_taps(torch_layer, (input_height, input_width))
        return super().from_torch(layer, input_height, input_width, batch_size, mesh_mapper, **settings)

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


def _without_blind_taps(layer: Any, size: tuple[int, int]) -> Any:
    """The layer, or one with fewer taps that computes the same."""
    kernel, stride, dilation = (as_tuple(getattr(layer, name)) for name in ("kernel_size", "stride", "dilation"))
    border = borders(_padding(layer))
    sides = [(size[i], border[2 * i], border[2 * i + 1], kernel[i], stride[i], dilation[i]) for i in (0, 1)]
    if layer.padding_mode != "zeros" or dilation == (1, 1) or any(convolved(*side) < 1 for side in sides):
        return layer
    used = [taps_in_use(*side) for side in sides]
    if [len(taps) for taps in used] == list(kernel):
        return layer
    padding = [
        edge
        for (_, before, after, count, _, step), taps in zip(sides, used, strict=True)
        for edge in (before - taps.start * step, after - (count - taps.stop) * step)
    ]
    weight = layer.weight[:, :, used[0].start : used[0].stop, used[1].start : used[1].stop]
    shape = {name: getattr(layer, name) for name in ("in_channels", "out_channels", "stride", "groups")}
    return SimpleNamespace(
        **shape,
        kernel_size=tuple(len(taps) for taps in used),
        dilation=tuple(step if len(taps) > 1 else 1 for step, taps in zip(dilation, used, strict=True)),
        padding=shortened(tuple(padding)),
        padding_mode=layer.padding_mode,
        weight=weight,
        bias=layer.bias,
    )


def _padding(layer: torch.nn.Conv2d) -> tuple[int, ...]:
    """PyTorch also has words for it."""
    if layer.padding == "valid":
        return (0, 0)
    if layer.padding == "same":
        return same_padding(as_tuple(layer.kernel_size), as_tuple(layer.dilation))
    return as_tuple(layer.padding)
