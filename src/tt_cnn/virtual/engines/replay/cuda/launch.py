"""Steps on the GPU: which kernel, with which arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tt_cnn.virtual.engines.replay.cuda import triton_kernels as kernels
from tt_cnn.virtual.engines.replay.cuda.kernel_calls import (
    WEIGHT_MULTIPLE,
    Computed,
    Convolution,
    Copy,
    KernelCall,
    Mean,
    Window,
)

MULTIPLE = 16
"""Channels that a convolution's kernel takes at once must be a multiple of this; otherwise it gathers them singly."""
PREFETCHING = 8
"""Weights are fetched ahead where at most so many rows of tiles use them."""
CELLS = 512
"""A program of the element-wise kernels computes so many."""


@dataclass(frozen=True)
class Tiles:
    """How a convolution is cut: rows (pixels), columns (channels of the result), depth, and programs a sum.

    A row may be several neighbours: fewer are read for all of them together than for each, more is multiplied by 0.
    """

    rows: int
    columns: int
    depth: int
    split: int
    warps: int
    stages: int
    neighbours: int = 1
    joined: bool = False
    """The depth is that of several pixels of a row, where channels are fewer."""


class Workspace:
    """Sums that several programs share, and how many of those have come. All steps use the same, in turn."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.partial = torch.empty(1, device=device)
        self.counters = torch.zeros(1 << 14, dtype=torch.int32, device=device)

    def reserve(self, cells: int) -> None:
        if self.partial.numel() < cells:
            self.partial = torch.empty(cells, device=self.device)


def grid_of(step: Convolution, tiles: Tiles) -> tuple[int, int]:
    n, _, h, w = step.node.source.shape if step.transposed else step.node.shape
    columns = columns_of(step, tiles.neighbours)
    return -(-n * h * w // (tiles.neighbours * tiles.rows)) * -(-columns // tiles.columns), tiles.split


def columns_of(step: Convolution, neighbours: int = 1) -> int:
    """Of the product: a transposed convolution's are those of all places of its window."""
    if not step.transposed and neighbours == 1:
        return step.columns
    pixels = math.prod(step.node.params[0]) if step.transposed else neighbours
    return pixels * _up(step.node.shape[1], WEIGHT_MULTIPLE)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def convolution_arguments(
    step: Convolution, matrix: torch.Tensor, tiles: Tiles, workspace: Workspace, pdl: bool
) -> tuple[list[Any], dict[str, Any]]:
    """For the kernel, but for its grid."""
    node, x, y, other = step.node, step.x, step.y, step.other
    (_, _, h, w), (_, oc, oh, ow) = node.source.shape, node.shape
    y_row, y_pixel, tap_row, tap_pixel, taps, taps_w, tap = y.stride(2), y.stride(3), 0, 0, 1, 1, 0
    c, kh, kw = step.window
    (sh, sw), (top, left, bottom, right), (dh, dw) = node.params[0], node.params[1], (1, 1)
    o = (0, 0, 0) if other is None else (other.stride(0), other.stride(2), other.stride(3))
    other_tap = o[2]
    if step.transposed:  # every place of the window is a 1x1 convolution
        tap_row, tap_pixel, taps, taps_w, tap = y_row, y_pixel, sh * sw, sw, _up(oc, WEIGHT_MULTIPLE)
        y_row, y_pixel, oh, ow = sh * y_row, sw * y_pixel, h, w
        sh = sw = 1
    elif tiles.neighbours > 1:
        taps = taps_w = sw = tiles.neighbours
        tap_pixel, tap, kw, ow = y_pixel, _up(oc, WEIGHT_MULTIPLE), kw + taps - 1, ow // taps
        y_pixel, o = taps * y_pixel, (*o[:2], taps * o[2])
    else:
        oc = step.columns
        dh, dw = node.params[2]
    name, params = step.activation
    a, b = (*params, 0.0, 0.0)[:2]
    tail_name, params = step.tail_activation
    tail_a, tail_b = (*params, 0.0, 0.0)[:2]
    eight = (0,) * 5
    if step.eight is not None:  # with the same places in it as in y
        _, _, row, pixel = step.eight.stride()
        across = y_pixel // y.stride(3)
        eight = (step.eight.stride(0), y_row // y.stride(2) * row, across * pixel, row, pixel)
    grid = grid_of(step, tiles)
    if tiles.split > 1:
        workspace.reserve(math.prod(grid) * tiles.rows * tiles.columns)
    scattered = c % MULTIPLE != 0
    arguments = [
        x, matrix, step.scales if step.in_eight_bits else matrix,
        matrix if step.row_of_bias is None else step.row_of_bias, y if other is None else other, y,
        y if step.eight is None else step.eight, workspace.partial, workspace.counters,
        matrix if step.tail is None else step.tail_weight, a, b, 0.0 if step.tail is None else step.tail_bias, tail_a,
        tail_b, 1.0 / step.scale, y.shape[0] * oh * ow, ow, oh * ow, h, w, c, oc, matrix.shape[1], *matrix.stride(),
        sh, sw, top, left, dh, dw, tiles.split, x.stride(0), x.stride(2), x.stride(3), x.stride(1),
        *o, y.stride(0), y_row, y_pixel, tap_row, tap_pixel, other_tap, *eight,
    ]  # fmt: skip
    settings = {
        "KH": kh, "KW": kw, "TAPS": taps, "TAPS_W": taps_w, "TAP": tap, "BORDER": any((top, left, bottom, right)),
        "SCATTERED": scattered, "JOINED": tiles.joined, "CHANNELS": c if scattered or tiles.joined else 1,
        "SCALED": step.in_eight_bits, "BIAS": step.bias is not None, "EIGHT": step.eight is not None,
        "OTHER": 0 if other is None else 1 if step.fused.other_first else 2, "ACTIVATION": name,
        "TAIL": step.tail is not None, "TAIL_ACTIVATION": tail_name, "SPLIT": tiles.split > 1, "PDL": pdl,
        "PREFETCH": pdl and _prefetches(step, matrix, tiles, scattered),
        "BM": tiles.rows, "BN": tiles.columns, "BK": tiles.depth,
        "num_warps": tiles.warps, "num_stages": tiles.stages, "launch_pdl": pdl,
    }  # fmt: skip
    return arguments, settings


def _prefetches(step: Convolution, matrix: torch.Tensor, tiles: Tiles, scattered: bool) -> bool:
    """Where few programs share weights, and rows of those are whole."""
    n, _, h, w = step.node.source.shape if step.transposed else step.node.shape
    return (
        not scattered
        and not tiles.joined
        and matrix.shape[1] % tiles.columns == 0
        and n * h * w <= PREFETCHING * tiles.rows
    )


def convolution(
    step: Convolution, matrix: torch.Tensor, tiles: Tiles, workspace: Workspace, pdl: bool
) -> Callable[[], Any]:
    def launch() -> None:
        arguments, settings = convolution_arguments(step, matrix, tiles, workspace, pdl)
        kernels.convolution[grid_of(step, tiles)](*arguments, **settings)

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
    kernels.window[(-(-size // CELLS),)](
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
    kernels.mean[(-(-c // 64), n)](
        x, y, c, w, h * w, x.stride(0), x.stride(2), x.stride(3), y.stride(0), PDL=pdl, BLOCK=64, PIXELS=16,
        num_warps=4, launch_pdl=pdl,
    )  # fmt: skip


def after_torch(step: Convolution, pdl: bool) -> None:
    """Torch's convolution, and ours for what follows it."""
    _window(step, step.plain(), pdl, step.bias, KIND="copy")


def computed(step: Computed, pdl: bool) -> Callable[[], Any]:
    kernel, size = step.expression.by_triton(), step.y.numel()

    def launch() -> None:
        parameters = step.parameters
        kernel[(-(-size // 256),)](step.y, size, *parameters, PDL=pdl, BLOCK=256, num_warps=4, launch_pdl=pdl)

    return launch


def simple(step: KernelCall, pdl: bool) -> Callable[[], Any]:
    """The launch of a step that there is only one way for."""
    return partial(_SIMPLE[type(step)], step, pdl)


_SIMPLE: dict[type, Callable[..., None]] = {Copy: copy, Window: window, Mean: mean}
