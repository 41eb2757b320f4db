"""The configuration of a convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import as_tuple
from tt_cnn.builder.convolution_configuration import CONVOLUTION_RULES, ConvolutionConfiguration
from tt_cnn.builder.rules import Rule, instance
from tt_cnn.builder.weights import to_host_tensors
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

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.out_channels, self.in_channels // self.groups, *self.kernel_size)

    @property
    def output_size(self) -> tuple[int, int]:
        return window_output(self, self.dilation)

    @classmethod
    def with_random_weights(
        cls,
        input_height: int,
        input_width: int,
        in_channels: int,
        out_channels: int,
        batch_size: int,
        kernel_size: tuple[int, int],
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> Conv2dConfiguration:
        """Normal weights and bias, for trying out a shape."""
        kernel = as_tuple(kernel_size)
        shape = (out_channels, in_channels // settings.get("groups", 1), *kernel)
        return cls._with_random_weights(
            shape,
            mesh_mapper,
            input_height=input_height,
            input_width=input_width,
            in_channels=in_channels,
            out_channels=out_channels,
            batch_size=batch_size,
            kernel_size=kernel,
            **settings,
        )

    @classmethod
    def from_torch(
        cls,
        torch_layer: torch.nn.Conv2d,
        input_height: int,
        input_width: int,
        batch_size: int,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> Conv2dConfiguration:
        """The same convolution: shape and weights from PyTorch's layer, all else from `settings`."""
        if torch_layer.padding_mode not in PADDING_MODES:
            raise ValueError(
                f"torch_layer.padding_mode is {torch_layer.padding_mode!r}; "
                f"it must be {' or '.join(map(repr, PADDING_MODES))}."
            )
        weight, bias = to_host_tensors(torch_layer.weight, torch_layer.bias, mesh_mapper)
        shape: dict[str, Any] = {
            "in_channels": torch_layer.in_channels,
            "out_channels": torch_layer.out_channels,
            "kernel_size": torch_layer.kernel_size,
            "stride": torch_layer.stride,
            "padding": _padding(torch_layer),
            "padding_mode": PADDING_MODES[torch_layer.padding_mode],
            "groups": torch_layer.groups,
            "dilation": torch_layer.dilation,
        }
        return cls(
            input_height=input_height,
            input_width=input_width,
            batch_size=batch_size,
            weight=weight,
            bias=bias,
            **{**shape, **settings},
        )

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
