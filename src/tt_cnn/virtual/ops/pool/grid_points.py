# SPDX-License-Identifier: Apache-2.0
"""Points of a grid: where they lie in an image, and grids that are prepared on the host.

A prepared grid is bfloat16 whose first two numbers of a point are not numbers: their bits are the row and the column
of the upper left pixel, as 16-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor as Values

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import host_round
from tt_cnn.virtual.numerics.bits import as_float, as_int
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

NEAREST = "nearest"
_ELEMENTS, _PREPARED_ELEMENTS = 2, 6
_OUTSIDE = -1


class Grid(NamedTuple):
    """What a call says of its grid."""

    mode: str
    prepared: bool
    in_channels: bool
    """Several points of a row become channels of one sample, and not samples beside each other."""

    @property
    def elements(self) -> int:
        """Numbers of a point."""
        return _PREPARED_ELEMENTS if self.prepared and self.mode != NEAREST else _ELEMENTS

    def factor(self, shape: Shape) -> int:
        """Points in the last dimension."""
        return shape[-1] // self.elements

    def output_shape(self, image: Shape, grid: Shape) -> Shape:
        factor = self.factor(grid)
        width, channels = (1, factor) if self.in_channels else (factor, 1)
        return Shape((image[0], grid[1], grid[2] * width, image[-1] * channels))


class Corners(NamedTuple):
    """The upper left pixel of each point, and the weights of the four from there on, row by row."""

    rows: Values
    columns: Values
    weights: Values


def _places(points: Values, height: int, width: int, align_corners: bool) -> tuple[Values, Values]:
    """Rows and columns in pixels, in float32 as the kernels reckon: -1 and 1 are borders, or centres of pixels."""
    places = []
    for size, relative in ((height, points[..., 1]), (width, points[..., 0])):
        scale = (size - 1) * 0.5 if align_corners else size * 0.5
        offset = scale if align_corners else scale - 0.5
        places.append(relative.float() * scale + offset)
    return places[0], places[1]


def corners_of(points: Values, height: int, width: int, align_corners: bool) -> Corners:
    """For points (..., x and y); pixels outside the image weigh nothing."""
    row, column = _places(points, height, width, align_corners)
    rows, columns = row.floor(), column.floor()
    down, across = row - rows, column - columns
    weights = []
    for below, vertical in ((0, 1 - down), (1, down)):
        for beside, horizontal in ((0, 1 - across), (1, across)):
            r, c = rows + below, columns + beside
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            weights.append(torch.where(inside, vertical * horizontal, 0.0))
    return Corners(rows.to(torch.int64), columns.to(torch.int64), torch.stack(weights, -1))


def read_prepared(points: Values, mode: str) -> Corners:
    """The bits of the first two numbers are integers."""
    whole = (as_int(points.contiguous()) >> 16).to(torch.int64)
    weights = points[..., :1] if mode == NEAREST else points[..., _ELEMENTS:]
    return Corners(whole[..., 0], whole[..., 1], weights)


def _as_bits(whole: Values) -> Values:
    """float32 whose upper half is a 16-bit integer, as a bfloat16 tensor carries its bits."""
    return as_float(whole.to(torch.int32) << 16)


def prepare_grid_sample_grid(
    grid: Tensor,
    input_shape: Sequence[int],
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    output_dtype: DataType | None = None,
) -> Tensor:
    """A host grid for `grid_sample(use_precomputed_grid=True)`: pixels and weights instead of coordinates."""
    fatal(len(grid.shape) == 4, f"Grid tensor must be 4D (N, H_out, W_out, 2), but got {grid.shape}")
    fatal(grid.layout is Layout.ROW_MAJOR, "Grid tensor must be in row major layout")
    fatal(grid.shape[-1] == _ELEMENTS, "Grid tensor last dimension must be 2 (x, y coordinates)")
    fatal(padding_mode == "zeros", "Currently only 'zeros' padding mode is supported")
    fatal(output_dtype in (None, DataType.BFLOAT16), "Currently only BFLOAT16 is supported for the grid output dtype")
    fatal(grid.dtype is DataType.FLOAT32, "Currently only float32 input grid is supported")
    _, height, width, _ = input_shape
    prepared = []
    for value in grid.host_values("prepare_grid_sample_grid"):
        if mode == NEAREST:
            prepared.append(_as_bits(_nearest(value, height, width, align_corners)))
            continue
        corners = corners_of(value, height, width, align_corners)
        first = _as_bits(torch.stack([corners.rows, corners.columns], -1))
        prepared.append(torch.cat([first, host_round(corners.weights, DataType.BFLOAT16)], -1))
    elements = _ELEMENTS if mode == NEAREST else _PREPARED_ELEMENTS
    shape = Shape((*list(grid.shape)[:3], elements))
    return Tensor.on_host(Spec(shape, DataType.BFLOAT16, Layout.ROW_MAJOR), HostStorage(prepared))


def _nearest(points: Values, height: int, width: int, align_corners: bool) -> Values:
    """Row and column of the nearest pixel, halves away from zero; -1 and -1 outside of the image."""
    row, column = _places(points, height, width, align_corners)
    rows, columns = (place.sign() * (place.abs() + 0.5).floor() for place in (row, column))
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    return torch.where(inside[..., None], torch.stack([rows, columns], -1), float(_OUTSIDE))
