# SPDX-License-Identifier: Apache-2.0
"""Pools and upsampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.ops.sliding_window.window import four_paddings
from tt_cnn.virtual.references.convolution import flat, image
from tt_cnn.virtual.references.registry import Arguments, golden


def _input(given: Arguments) -> Tensor:
    return image(given["input_tensor"], *(given[name] for name in ("batch_size", "input_h", "input_w", "channels")))


def _window(given: Arguments, fill: float) -> Arguments:
    """The image and its window by torch's names; torch takes padding that is the same on both sides only."""
    x = _input(given)
    top, bottom, left, right = four_paddings(given["padding"])
    if (top, left) != (bottom, right):
        x = F.pad(x, (left, right, top, bottom), value=fill)
        top = left = 0
    pairs = {name: tuple(given[name]) for name in ("kernel_size", "stride")}
    return {"input": x, "padding": (top, left), "ceil_mode": given["ceil_mode"], **pairs}


@golden("max_pool2d")
def _max_pool2d(*, dilation: Sequence[int], **given: Any) -> Tensor:
    return flat(F.max_pool2d(**_window(given, float("-inf")), dilation=tuple(dilation)))


@golden("avg_pool2d")
def _avg_pool2d(*, count_include_pad: bool, divisor_override: int | None, **given: Any) -> Tensor:
    return flat(
        F.avg_pool2d(**_window(given, 0.0), count_include_pad=count_include_pad, divisor_override=divisor_override)
    )


@golden("global_avg_pool2d")
def _global_avg_pool2d(input_tensor: Tensor, **_: Any) -> Tensor:
    return input_tensor.float().mean(dim=(1, 2), keepdim=True)


def _adaptive(pool: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda **given: flat(pool(_input(given), tuple(given["output_size"])))


golden("adaptive_avg_pool2d")(_adaptive(F.adaptive_avg_pool2d))
golden("adaptive_max_pool2d")(_adaptive(F.adaptive_max_pool2d))


@golden("upsample")
def _upsample(input_tensor: Tensor, scale_factor: Any, *, mode: str = "nearest", **_: Any) -> Tensor:
    factors = (scale_factor, scale_factor) if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    scaled = F.interpolate(
        input_tensor.float().permute(0, 3, 1, 2), scale_factor=tuple(float(f) for f in factors), mode=mode
    )
    return scaled.permute(0, 2, 3, 1)


@golden("grid_sample")
def _grid_sample(
    input_tensor: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    align_corners: bool = False,
    use_precomputed_grid: bool = False,
    batch_output_channels: bool = False,
    **_: Any,
) -> Tensor:
    """Of coordinates; prepared grids hold bits that are no numbers."""
    if use_precomputed_grid:
        raise RuntimeError("the golden function of ttnn.grid_sample takes coordinates, not a grid that is prepared")
    n, rows, columns, last = grid.shape
    points = grid.reshape(n, rows, columns * last // 2, 2).float()
    image = input_tensor.permute(0, 3, 1, 2).float()
    sampled = F.grid_sample(image, points, mode=mode, padding_mode="zeros", align_corners=align_corners)
    sampled = sampled.permute(0, 2, 3, 1)
    return sampled.reshape(n, rows, columns, -1) if batch_output_channels else sampled
