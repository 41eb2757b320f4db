# SPDX-License-Identifier: Apache-2.0
"""Steps on the GPU: which kernel, with which arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.cuda import triton_kernels as kernels
from tt_cnn.virtual.engines.replay.cuda.convolution_arguments import Tiles, Workspace, convolution_arguments
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import Computed, Convolution, Copy, KernelCall, Mean, Window

CELLS = 512
"""A program of the element-wise kernels computes so many."""


Launch = tuple[Any, tuple[Any, ...], dict[str, Any]]
"""A kernel, its arguments, and its constants and options by name."""


class _Noted(threading.local):
    launches: list[Launch] | None = None


_noted = _Noted()


def noted(launch: Callable[[], Any]) -> list[Launch]:
    """The kernels that a step would launch beside convolutions, with their arguments; nothing is launched."""
    found: list[Launch] = []
    _noted.launches = found
    try:
        launch()
    finally:
        _noted.launches = None
    return found


def _start(kernel: Any, grid: tuple[int, ...], *arguments: Any, **settings: Any) -> None:
    if _noted.launches is None:
        kernel[grid](*arguments, **settings)
    else:
        _noted.launches.append((kernel, arguments, settings))


def convolution(
    step: Convolution, matrix: torch.Tensor, tiles: Tiles, workspace: Workspace, pdl: bool
) -> Callable[[], Any]:
    def launch() -> None:
        found = convolution_arguments(step, matrix, tiles, workspace, pdl)
        kernels.convolution[found.grid](**found.arguments, **found.settings)

    return launch


def _window(step: KernelCall, x: torch.Tensor, pdl: bool, bias: torch.Tensor | None = None, **window: Any) -> None:
    y, other = step.y, step.other
    _, c, oh, ow = y.shape
    name, params = step.activation
    a, b = (*params, 0.0, 0.0)[:2]
    o = (0, 0, 0) if other is None else (other.stride(0), other.stride(2), other.stride(3))
    shape = {
        "KH": 1, "KW": 1, "SH": 1, "SW": 1, "TOP": 0, "LEFT": 0, "DH": 1, "DW": 1, "COUNT_PADDING": False,
    } | window  # fmt: skip
    size = y.numel()
    eight = y if step.eight is None else step.eight
    _start(
        kernels.window, (-(-size // CELLS),),
        x, y if bias is None else bias, y if other is None else other, y, eight, a, b, 1.0 / step.scale, size,
        x.shape[2], x.shape[3], c, ow, oh * ow, x.stride(0), x.stride(2), x.stride(3), x.stride(1), *o,
        y.stride(0), y.stride(2), y.stride(3), eight.stride(0), eight.stride(2), eight.stride(3),
        BIAS=bias is not None, OTHER=0 if other is None else 1 if step.fused.other_first else 2, ACTIVATION=name,
        EIGHT=step.eight is not None, PDL=pdl, BLOCK=CELLS, num_warps=4, launch_pdl=pdl, **shape,
    )  # fmt: skip


def copy(step: Copy, pdl: bool) -> None:
    down, across = step.times
    _window(step, step.x, pdl, KIND="copy", SH=down, SW=across)


def window(step: Window, pdl: bool) -> None:
    (kh, kw), (sh, sw), (top, left, _, _), extra = step.node.params
    shape = {"KH": kh, "KW": kw, "SH": sh, "SW": sw, "TOP": top, "LEFT": left}
    if step.node.kind == "avg_pool":
        _window(step, step.x, pdl, KIND="average", COUNT_PADDING=bool(extra[0]), **shape)
    else:
        _window(step, step.x, pdl, KIND="max", DH=extra[0], DW=extra[1], **shape)


def mean(step: Mean, pdl: bool) -> None:
    x, y = step.x, step.y
    n, c, h, w = x.shape
    _start(
        kernels.mean, (-(-c // 64), n),
        x, y, c, w, h * w, x.stride(0), x.stride(2), x.stride(3), y.stride(0), PDL=pdl, BLOCK=64, PIXELS=16,
        num_warps=4, launch_pdl=pdl,
    )  # fmt: skip


def after_torch(step: Convolution, pdl: bool) -> None:
    """Torch's convolution, and ours for what follows it."""
    value = step.plain() if _noted.launches is None else _like_plain(step)
    _window(step, value, pdl, step.bias, KIND="copy")


def _like_plain(step: Convolution) -> torch.Tensor:
    memory = torch.channels_last
    return torch.empty(step.node.shape, dtype=step.dtype, device=step.y.device, memory_format=memory)


def computed(step: Computed, pdl: bool) -> Callable[[], Any]:
    kernel, size = step.expression.by_triton(), step.y.numel()

    def launch() -> None:
        """Without fused products: x * x - x * x is 0."""
        parameters = step.parameters
        _start(
            kernel, (-(-size // 256),), step.y, size, *parameters, PDL=pdl, BLOCK=256, num_warps=4, launch_pdl=pdl,
            enable_fp_fusion=False,
        )  # fmt: skip

    return launch


def simple(step: KernelCall, pdl: bool) -> Callable[[], Any]:
    """The launch of a step that there is only one way for."""
    return partial(_SIMPLE[type(step)], step, pdl)


_SIMPLE: dict[type, Callable[..., None]] = {Copy: copy, Window: window, Mean: mean}
