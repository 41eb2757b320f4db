"""Pools and upsampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.references.convolution import flat, image
from tt_cnn.virtual.references.registry import golden


def _bordered(x: Tensor, padding: Sequence[int], fill: float) -> tuple[Tensor, tuple[int, int]]:
    """The image and the padding left for torch, which takes the same on both sides only."""
    top, bottom, left, right = four_paddings(padding)
    if top == bottom and left == right:
        return x, (top, left)
    return F.pad(x, (left, right, top, bottom), value=fill), (0, 0)


@golden("max_pool2d")
def _max_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool = False,
    **_: Any,
) -> Tensor:
    x, both = _bordered(image(input_tensor, batch_size, input_h, input_w, channels), padding, float("-inf"))
    return flat(F.max_pool2d(x, tuple(kernel_size), tuple(stride), both, tuple(dilation), ceil_mode))


@golden("avg_pool2d")
def _avg_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **_: Any,
) -> Tensor:
    x, both = _bordered(image(input_tensor, batch_size, input_h, input_w, channels), padding, 0.0)
    return flat(
        F.avg_pool2d(x, tuple(kernel_size), tuple(stride), both, ceil_mode, count_include_pad, divisor_override)
    )


@golden("global_avg_pool2d")
def _global_avg_pool2d(input_tensor: Tensor, **_: Any) -> Tensor:
    return input_tensor.float().mean(dim=(1, 2), keepdim=True)


@golden("adaptive_avg_pool2d")
def _adaptive_avg_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    output_size: Sequence[int],
    **_: Any,
) -> Tensor:
    height, width = output_size
    return flat(F.adaptive_avg_pool2d(image(input_tensor, batch_size, input_h, input_w, channels), (height, width)))


@golden("adaptive_max_pool2d")
def _adaptive_max_pool2d(
    input_tensor: Tensor,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    output_size: Sequence[int],
    **_: Any,
) -> Tensor:
    height, width = output_size
    return flat(F.adaptive_max_pool2d(image(input_tensor, batch_size, input_h, input_w, channels), (height, width)))


@golden("upsample")
def _upsample(input_tensor: Tensor, scale_factor: Any, *, mode: str = "nearest", **_: Any) -> Tensor:
    factors = (scale_factor, scale_factor) if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    scaled = F.interpolate(
        input_tensor.float().permute(0, 3, 1, 2), scale_factor=tuple(float(f) for f in factors), mode=mode
    )
    return scaled.permute(0, 2, 3, 1)
