# SPDX-License-Identifier: Apache-2.0
"""What the convolution's kernel is given, in named groups. Each field is the kernel's parameter of that name.

The groups of `given` are values of a launch; those of `compiled_for` are constants, for each of which Triton compiles
the kernel again. None of this needs Triton or a GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from tt_cnn.virtual.engines.replay.cuda.kernel_calls import WEIGHT_MULTIPLE, Convolution

MULTIPLE = 16
"""Channels that a convolution's kernel takes at once must be a multiple of this; otherwise it gathers them singly."""
PREFETCHING = 8
"""Weights are fetched ahead where at most so many rows of tiles use them."""


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


class Tensors(NamedTuple):
    """In place of what there is not stands another tensor, which the kernel does not touch then."""

    x: torch.Tensor
    w: torch.Tensor
    scales: torch.Tensor
    bias: torch.Tensor
    other: torch.Tensor
    y: torch.Tensor
    eight: torch.Tensor
    partial: torch.Tensor
    counters: torch.Tensor
    tail: torch.Tensor


class Product(NamedTuple):
    """M rows, which are OHW to an image and OW to a row of it, times a matrix `width` wide, to OC channels."""

    M: int
    OW: int
    OHW: int
    C: int
    OC: int
    width: int
    w_depth: int
    w_column: int
    split_k: int


class Walk(NamedTuple):
    """How windows go over the input of H x W pixels: steps, the first one's place, and distances inside of one."""

    H: int
    W: int
    SH: int
    SW: int
    TOP: int
    LEFT: int
    DH: int
    DW: int


class Strides(NamedTuple):
    """Elements from one image, row or pixel to the next, and from one pixel that a row of the product makes."""

    x_image: int
    x_row: int
    x_pixel: int
    x_channel: int
    other_image: int
    other_row: int
    other_pixel: int
    other_tap: int
    y_image: int
    y_row: int
    y_pixel: int
    tap_row: int
    tap_pixel: int
    eight_image: int
    eight_row: int
    eight_pixel: int
    eight_tap_row: int
    eight_tap_pixel: int


class EpilogueNumbers(NamedTuple):
    """Parameters of the activations, the tail's bias, and what a result in e4m3 is multiplied by."""

    a: float
    b: float
    tail_bias: float
    tail_a: float
    tail_b: float
    factor: float


class Window(NamedTuple):
    KH: int
    KW: int
    BORDER: bool
    SCATTERED: bool
    JOINED: bool
    CHANNELS: int


class Taps(NamedTuple):
    """The pixels of the result that a row of the product makes, TAPS_W of them in a row. TAP is the number of columns
    of each, or 0 where the row is one pixel."""

    TAPS: int = 1
    TAPS_W: int = 1
    TAP: int = 0

    @property
    def down(self) -> int:
        return self.TAPS // self.TAPS_W


class Epilogue(NamedTuple):
    """What follows the product before it is stored."""

    SCALED: bool
    BIAS: bool
    OTHER: int
    ACTIVATION: str
    TAIL: bool
    TAIL_ACTIVATION: str
    EIGHT: bool


class Tile(NamedTuple):
    """The shape of a program's tile, how programs share the sum and start, and Triton's own options."""

    BM: int
    BN: int
    BK: int
    SPLIT: bool
    PDL: bool
    PREFETCH: bool
    num_warps: int
    num_stages: int
    launch_pdl: bool


@dataclass(frozen=True)
class ConvolutionArguments:
    """All of the kernel's parameters, and its grid."""

    grid: tuple[int, int]
    given: tuple[Tensors, Product, Walk, Strides, EpilogueNumbers]
    compiled_for: tuple[Window, Taps, Epilogue, Tile]

    @property
    def arguments(self) -> dict[str, Any]:
        return {name: value for group in self.given for name, value in group._asdict().items()}

    @property
    def settings(self) -> dict[str, Any]:
        return {name: value for group in self.compiled_for for name, value in group._asdict().items()}


def convolution_arguments(
    step: Convolution, matrix: torch.Tensor, tiles: Tiles, workspace: Workspace, pdl: bool
) -> ConvolutionArguments:
    grid = grid_of(step, tiles)
    if tiles.split > 1:
        workspace.reserve(math.prod(grid) * tiles.rows * tiles.columns)
    taps = _taps(step, tiles)
    window = _window(step, tiles, taps)
    return ConvolutionArguments(
        grid,
        (
            _tensors(step, matrix, workspace),
            _product(step, matrix, tiles, taps),
            _walk(step, taps),
            _strides(step, taps),
            _epilogue_numbers(step),
        ),
        (window, taps, _epilogue(step), _tile(step, matrix, tiles, window, pdl)),
    )


def grid_of(step: Convolution, tiles: Tiles) -> tuple[int, int]:
    n, h, w = _rows(step)
    columns = columns_of(step, tiles.neighbours)
    return -(-n * h * w // (tiles.neighbours * tiles.rows)) * -(-columns // tiles.columns), tiles.split


def columns_of(step: Convolution, neighbours: int = 1) -> int:
    """Of the product: a transposed convolution's are those of all places of its window."""
    if not step.transposed and neighbours == 1:
        return step.columns
    pixels = math.prod(step.node.params[0]) if step.transposed else neighbours
    return pixels * _filled_channels(step)


def _filled_channels(step: Convolution) -> int:
    return -(-step.node.shape[1] // WEIGHT_MULTIPLE) * WEIGHT_MULTIPLE


def _rows(step: Convolution) -> tuple[int, int, int]:
    """Images, and the height and width whose pixels the product has rows for. Every place of a transposed
    convolution's window is a 1x1 convolution of its input."""
    n, _, h, w = step.node.source.shape if step.transposed else step.node.shape
    return n, h, w


def _taps(step: Convolution, tiles: Tiles) -> Taps:
    if step.transposed:
        down, across = step.node.params[0]
        return Taps(down * across, across, _filled_channels(step))
    if tiles.neighbours > 1:
        return Taps(tiles.neighbours, tiles.neighbours, _filled_channels(step))
    return Taps()


def _window(step: Convolution, tiles: Tiles, taps: Taps) -> Window:
    c, kh, kw = step.window
    scattered = c % MULTIPLE != 0
    return Window(
        KH=kh,
        KW=kw if step.transposed else kw + taps.TAPS_W - 1,
        BORDER=any(step.node.params[1]),
        SCATTERED=scattered,
        JOINED=tiles.joined,
        CHANNELS=c if scattered or tiles.joined else 1,
    )


def _tensors(step: Convolution, matrix: torch.Tensor, workspace: Workspace) -> Tensors:
    other = step.other
    return Tensors(
        x=step.x,
        w=matrix,
        scales=step.scales if step.in_eight_bits else matrix,
        bias=matrix if step.row_of_bias is None else step.row_of_bias,
        other=step.y if other is None else other,
        y=step.y,
        eight=step.y if step.eight is None else step.eight,
        partial=workspace.partial,
        counters=workspace.counters,
        tail=matrix if step.tail is None else step.tail_weight,
    )


def _product(step: Convolution, matrix: torch.Tensor, tiles: Tiles, taps: Taps) -> Product:
    n, h, w = _rows(step)
    w = w if step.transposed else w // taps.TAPS_W
    w_depth, w_column = matrix.stride()
    return Product(
        M=n * h * w,
        OW=w,
        OHW=h * w,
        C=step.window[0],
        OC=step.node.shape[1] if taps.TAP else step.columns,
        width=matrix.shape[1],
        w_depth=w_depth,
        w_column=w_column,
        split_k=tiles.split,
    )


def _walk(step: Convolution, taps: Taps) -> Walk:
    (down, across), (top, left, _, _) = step.node.params[:2]
    _, _, h, w = step.node.source.shape
    if step.transposed:
        return Walk(h, w, 1, 1, top, left, 1, 1)
    if taps.TAP:
        return Walk(h, w, down, taps.TAPS_W, top, left, 1, 1)
    apart_h, apart_w = step.node.params[2]
    return Walk(h, w, down, across, top, left, apart_h, apart_w)


def _strides(step: Convolution, taps: Taps) -> Strides:
    """Of images that there are not: 0. An image in e4m3 has the same places in it as y."""
    nothing = (0, 0, 0, 0)
    x_image, x_channel, x_row, x_pixel = step.x.stride()
    other_image, _, other_row, other_pixel = nothing if step.other is None else step.other.stride()
    y_image, _, row, pixel = step.y.stride()
    eight_image, _, eight_row, eight_pixel = nothing if step.eight is None else step.eight.stride()
    return Strides(
        x_image=x_image,
        x_row=x_row,
        x_pixel=x_pixel,
        x_channel=x_channel,
        other_image=other_image,
        other_row=other_row,
        other_pixel=other_pixel if step.transposed else taps.TAPS_W * other_pixel,
        other_tap=other_pixel,
        y_image=y_image,
        y_row=taps.down * row,
        y_pixel=taps.TAPS_W * pixel,
        tap_row=row if step.transposed else 0,
        tap_pixel=pixel if taps.TAP else 0,
        eight_image=eight_image,
        eight_row=taps.down * eight_row,
        eight_pixel=taps.TAPS_W * eight_pixel,
        eight_tap_row=eight_row,
        eight_tap_pixel=eight_pixel,
    )


def _epilogue_numbers(step: Convolution) -> EpilogueNumbers:
    a, b = (*step.activation[1], 0.0, 0.0)[:2]
    tail_a, tail_b = (*step.tail_activation[1], 0.0, 0.0)[:2]
    return EpilogueNumbers(a, b, 0.0 if step.tail is None else step.tail_bias, tail_a, tail_b, 1.0 / step.scale)


def _epilogue(step: Convolution) -> Epilogue:
    return Epilogue(
        SCALED=step.in_eight_bits,
        BIAS=step.bias is not None,
        OTHER=0 if step.other is None else 1 if step.fused.other_first else 2,
        ACTIVATION=step.activation[0],
        TAIL=step.tail is not None,
        TAIL_ACTIVATION=step.tail_activation[0],
        EIGHT=step.eight is not None,
    )


def _tile(step: Convolution, matrix: torch.Tensor, tiles: Tiles, window: Window, pdl: bool) -> Tile:
    """Weights are fetched ahead where few programs share them, and rows of those are whole."""
    whole = not window.SCATTERED and not window.JOINED and matrix.shape[1] % tiles.columns == 0
    return Tile(
        BM=tiles.rows,
        BN=tiles.columns,
        BK=tiles.depth,
        SPLIT=tiles.split > 1,
        PDL=pdl,
        PREFETCH=pdl and whole and math.prod(_rows(step)) <= PREFETCHING * tiles.rows,
        num_warps=tiles.warps,
        num_stages=tiles.stages,
        launch_pdl=pdl,
    )
