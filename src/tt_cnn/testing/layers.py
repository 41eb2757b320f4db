# SPDX-License-Identifier: Apache-2.0
"""One layer from its configuration, against torch: made, given a random input, compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional as F

from tt_cnn import ttnn
from tt_cnn.testing.pcc import assert_with_pcc
from tt_cnn.testing.torch_layers import borders, torch_conv2d, torch_conv_transpose2d, torch_linear

DEFAULT_PCC = 0.999


def verify_conv2d_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    """Run the convolution that a `Conv2dConfiguration` describes and torch's; fail where they differ.

    Gives the correlation. The other `verify_..._from_config` do the same for their configurations.
    """
    from tt_cnn.builder import TtConv2d

    image = _image(configuration, configuration.in_channels, configuration.activation_dtype)
    output = TtConv2d(configuration, device)(_convolution_input(image, configuration, device))
    return _compare_images(torch_conv2d(configuration, image), output, pcc_threshold)


def verify_conv_transpose2d_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    from tt_cnn.builder import TtConvTranspose2d

    image = _image(configuration, configuration.in_channels, configuration.activation_dtype)
    output = TtConvTranspose2d(configuration, device)(_convolution_input(image, configuration, device))
    return _compare_images(torch_conv_transpose2d(configuration, image), output, pcc_threshold)


def verify_maxpool2d_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    from tt_cnn.builder import TtMaxPool2d

    def reference(image: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(
            image,
            kernel_size=configuration.kernel_size,
            stride=configuration.stride,
            padding=_both_sides(configuration.padding),
            dilation=configuration.dilation,
            ceil_mode=configuration.ceil_mode,
        )

    return _verify_pool(TtMaxPool2d, reference, configuration, device, pcc_threshold)


def verify_avgpool2d_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    from tt_cnn.builder import TtAvgPool2d

    def reference(image: torch.Tensor) -> torch.Tensor:
        return F.avg_pool2d(
            image,
            kernel_size=configuration.kernel_size,
            stride=configuration.stride,
            padding=_both_sides(configuration.padding),
            ceil_mode=configuration.ceil_mode,
            count_include_pad=configuration.count_include_pad,
            divisor_override=configuration.divisor_override,
        )

    return _verify_pool(TtAvgPool2d, reference, configuration, device, pcc_threshold)


def verify_global_avgpool2d_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    from tt_cnn.builder import TtGlobalAvgPool2d

    image = _image(configuration, configuration.channels)
    given = ttnn.from_torch(
        image.permute(0, 2, 3, 1).contiguous(), dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device
    )
    output = TtGlobalAvgPool2d(configuration, device)(given)
    return _compare_images(image.mean((2, 3), keepdim=True), output, pcc_threshold)


def verify_upsample_from_config(configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC) -> float:
    from tt_cnn.builder import TtUpsample

    image = _image(configuration, configuration.channels)
    given = ttnn.from_torch(image.permute(0, 2, 3, 1).contiguous(), dtype=ttnn.bfloat16, device=device)
    output = TtUpsample(configuration, device)(given)
    corners = {"align_corners": False} if configuration.mode == "bilinear" else {}
    scale = tuple(float(each) for each in configuration.scale_factor)
    expected = F.interpolate(image, scale_factor=scale, mode=configuration.mode, **corners)
    return _compare_images(expected, output, pcc_threshold)


def verify_linear_from_config(
    configuration: Any, device: Any, pcc_threshold: float = DEFAULT_PCC, rows: int = 32
) -> float:
    from tt_cnn.builder import TtLinear

    values = torch.randn(1, 1, rows, configuration.in_features).bfloat16().float()
    given = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
    output = TtLinear(configuration, device)(given)
    expected = torch_linear(configuration, values)
    return assert_with_pcc(expected, ttnn.to_torch(output).float().reshape(expected.shape), pcc_threshold)[1]


def _verify_pool(
    layer: Callable[..., Any],
    reference: Callable[[torch.Tensor], torch.Tensor],
    configuration: Any,
    device: Any,
    pcc_threshold: float,
) -> float:
    image = _image(configuration, configuration.channels)
    given = ttnn.from_torch(_folded(image), dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, device=device)
    return _compare_images(reference(image), layer(configuration, device)(given), pcc_threshold)


def _image(configuration: Any, channels: int, dtype: Any = ttnn.bfloat16) -> torch.Tensor:
    """Random numbers that the input's dtype holds, so that what is measured is the layer's error alone."""
    shape = (configuration.batch_size, channels, configuration.input_height, configuration.input_width)
    image = torch.randn(shape).bfloat16().float()
    if dtype == ttnn.bfloat16:
        return image
    rows = ttnn.to_torch(ttnn.from_torch(_folded(image), dtype=dtype, layout=ttnn.TILE_LAYOUT)).float()
    return _unfolded(rows, image.shape)


def _convolution_input(image: torch.Tensor, configuration: Any, device: Any) -> Any:
    """As a model's first layer gets it, on the host; on the card where it is sliced or no bfloat16."""
    dtype = configuration.activation_dtype
    if dtype == ttnn.bfloat16 and configuration.slice_strategy is None:
        return ttnn.from_torch(image.permute(0, 2, 3, 1).contiguous(), dtype=dtype, layout=ttnn.ROW_MAJOR_LAYOUT)
    layout = ttnn.ROW_MAJOR_LAYOUT if dtype == ttnn.bfloat16 else ttnn.TILE_LAYOUT
    return ttnn.from_torch(_folded(image), dtype=dtype, layout=layout, device=device)


def _folded(image: torch.Tensor) -> torch.Tensor:
    """(N, C, H, W) as (1, 1, NHW, C)."""
    return image.permute(0, 2, 3, 1).reshape(1, 1, -1, image.shape[1]).contiguous()


def _unfolded(rows: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    batch, channels, height, width = shape
    return rows.reshape(batch, height, width, channels).permute(0, 3, 1, 2)


def _both_sides(padding: Any) -> tuple[int, int]:
    """torch's pools have no other padding: one that is put before them changes what `ceil_mode` means."""
    top, bottom, left, right = borders(padding)
    if top != bottom or left != right:
        raise ValueError(f"padding is {padding}; torch's pools, which it is compared with, have only (height, width)")
    return top, left


def _compare_images(expected: torch.Tensor, output: Any, pcc_threshold: float) -> float:
    actual = ttnn.to_torch(output).float()
    if actual.numel() != expected.numel():
        raise AssertionError(f"the output has shape {tuple(actual.shape)}; torch's has {tuple(expected.shape)}")
    return assert_with_pcc(expected, _unfolded(actual, expected.shape), pcc_threshold)[1]
