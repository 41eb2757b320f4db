# SPDX-License-Identifier: Apache-2.0
"""What torch computes for the layer that a configuration describes, in float32 and with the unrounded weights."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, ConvTranspose2dConfiguration, LinearConfiguration
from tt_cnn.builder.weights import to_one_torch
from tt_cnn.testing.activations import apply


def torch_conv2d(configuration: Conv2dConfiguration, image: torch.Tensor) -> torch.Tensor:
    """NCHW to NCHW, through the activation."""
    mode = "replicate" if configuration.padding_mode == ttnn.PaddingMode.Replicate else "constant"
    top, bottom, left, right = borders(configuration.padding)
    output = F.conv2d(
        F.pad(image, (left, right, top, bottom), mode),
        to_one_torch(configuration.weight).float(),
        _bias(configuration),
        stride=configuration.stride,
        dilation=configuration.dilation,
        groups=configuration.groups,
    )
    return apply(configuration.activation, output)


def torch_conv_transpose2d(configuration: ConvTranspose2dConfiguration, image: torch.Tensor) -> torch.Tensor:
    """NCHW to NCHW, through the activation."""
    weight = to_one_torch(configuration.weight).float()
    top, bottom, left, right = borders(configuration.padding)
    whole = F.conv_transpose2d(
        image,
        weight if configuration.mirror_kernel else weight.flip(-2, -1),
        _bias(configuration),
        stride=configuration.stride,
        output_padding=configuration.output_padding,
        dilation=configuration.dilation,
        groups=configuration.groups,
    )
    cropped = whole[..., top : whole.shape[-2] - bottom, left : whole.shape[-1] - right]  # padding crops its output
    return apply(configuration.activation, cropped)


def torch_linear(configuration: LinearConfiguration, values: torch.Tensor) -> torch.Tensor:
    """(..., in_features) to (..., out_features), through the activation."""
    weight = to_one_torch(configuration.weight).float().reshape(configuration.in_features, -1)
    bias = _bias(configuration)
    product = values @ weight
    return apply(configuration.activation, product if bias is None else product + bias)


def multiplies(configuration: Any) -> bool:
    """Whether `torch_rows` knows the layer."""
    return isinstance(configuration, (LinearConfiguration, Conv2dConfiguration, ConvTranspose2dConfiguration))


def torch_rows(configuration: Any, rows: torch.Tensor) -> torch.Tensor | None:
    """The output (rows, channels) of a layer for an input (..., channels); None for layers that multiply nothing.

    Images are as TT-NN flattens them, N*H*W rows; channels that pad the input are left out.
    """
    if isinstance(configuration, LinearConfiguration):
        return torch_linear(configuration, rows.reshape(-1, rows.shape[-1])[:, : configuration.in_features])
    if not multiplies(configuration):
        return None
    size = (configuration.batch_size, configuration.input_height, configuration.input_width)
    image = rows.reshape(*size, rows.shape[-1])[..., : configuration.in_channels].permute(0, 3, 1, 2)
    if isinstance(configuration, Conv2dConfiguration):
        output = torch_conv2d(configuration, image)
    else:
        output = torch_conv_transpose2d(configuration, image)
    return output.permute(0, 2, 3, 1).reshape(-1, output.shape[1])


def borders(padding: Any) -> tuple[int, int, int, int]:
    """(height, width) or (top, bottom, left, right) as the latter."""
    values = tuple(int(each) for each in padding)
    if len(values) == 4:
        return values
    height, width = values
    return height, height, width, width


def _bias(configuration: Any) -> torch.Tensor | None:
    return None if configuration.bias is None else to_one_torch(configuration.bias).float().reshape(-1)
