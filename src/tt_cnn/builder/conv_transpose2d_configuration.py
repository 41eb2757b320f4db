"""The configuration of a transposed convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.builder.configuration import as_tuple
from tt_cnn.builder.convolution_configuration import CONVOLUTION_RULES, ConvolutionConfiguration
from tt_cnn.builder.rules import Rule, flags, pair
from tt_cnn.builder.weights import to_host_tensors
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

    @property
    def weight_shape(self) -> tuple[int, int, int, int]:
        return (self.in_channels, self.out_channels // self.groups, *self.kernel_size)

    @property
    def output_size(self) -> tuple[int, int]:
        return transposed_output(self)

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
    ) -> ConvTranspose2dConfiguration:
        """Normal weights and bias, for trying out a shape."""
        kernel = as_tuple(kernel_size)
        shape = (in_channels, out_channels // settings.get("groups", 1), *kernel)
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
        torch_layer: torch.nn.ConvTranspose2d,
        input_height: int,
        input_width: int,
        batch_size: int,
        mesh_mapper: Any = None,
        **settings: Any,
    ) -> ConvTranspose2dConfiguration:
        """The same layer: shape and weights from PyTorch's, all else from `settings`."""
        weight, bias = to_host_tensors(torch_layer.weight, torch_layer.bias, mesh_mapper)
        shape: dict[str, Any] = {
            "in_channels": torch_layer.in_channels,
            "out_channels": torch_layer.out_channels,
            "kernel_size": torch_layer.kernel_size,
            "stride": torch_layer.stride,
            "padding": torch_layer.padding,
            "output_padding": torch_layer.output_padding,
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
