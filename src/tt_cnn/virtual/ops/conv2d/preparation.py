# SPDX-License-Identifier: Apache-2.0
"""Weights (out, in, height, width) as the prepared matrix, and back, by a `WeightLayout`."""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.formats import as_floats
from tt_cnn.virtual.ops.conv2d.problem import Convolution
from tt_cnn.virtual.ops.matmul.weight_layout import WeightLayout
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.geometry import TILE_SIZE, round_up


def prepared_weights(weights: Tensor, layout: WeightLayout) -> Tensor:
    """The whole matrix (1, 1, rows, columns), zeros where no weight stands."""
    dense = as_floats(weights)
    if _is_sparse(layout):
        matrix = dense.new_zeros(layout.rows, layout.columns)
        matrix[_own_places(layout, dense)] = dense
        return matrix.reshape(1, 1, layout.rows, layout.columns)
    if layout.scheme == "depthwise":
        dense = dense[:, :1].expand(-1, layout.in_channels, -1, -1)
    else:
        dense = folded_weights(_dense(dense, layout.groups), layout.fold)
    dense = _more_channels(dense, layout.in_channels)
    matrix = dense.new_zeros(layout.rows, layout.columns)
    matrix[_rows(layout).to(dense.device), : dense.shape[0]] = dense.permute(1, 2, 3, 0).reshape(-1, dense.shape[0])
    return matrix.reshape(1, 1, layout.rows, layout.columns)


def weights_of(matrix: Tensor, layout: WeightLayout, conv: Convolution) -> Tensor:
    """(out, in / groups, height, width) of the convolution as it was asked for, out of a prepared matrix."""
    matrix = matrix.reshape(matrix.shape[-2:])
    rows = _rows(layout).to(matrix.device)
    if matrix.shape[0] <= int(rows.max()):  # prepared for another call
        matrix = F.pad(matrix, (0, 0, 0, int(rows.max()) + 1 - matrix.shape[0]))
    folded = layout.kernel != conv.kernel
    if _is_sparse(layout) and layout.groups == conv.groups and not folded:
        own = matrix.new_empty(conv.out_channels, layout.in_channels // conv.groups, *layout.kernel)
        return matrix[_own_places(layout, own)]
    inner = (layout.in_channels, *layout.kernel)
    dense = matrix[rows, : conv.out_channels].reshape(*inner, -1).permute(3, 0, 1, 2)
    if layout.scheme == "depthwise":
        return dense[:, :1]
    if folded:
        dense = _unfolded(dense, conv)
    return _own_channels(dense, conv.groups)


def with_all_channels(weights: Tensor, conv: Convolution) -> tuple[Tensor, int]:
    """Weights for all input channels of the call, and their groups: zeros for the channels that they lack.

    TT-NN spreads groups out to dense weights by the weights' own channels and fills up with zeros behind those, so
    that weights which lack channels are weights without groups.
    """
    if weights.shape[1] * conv.groups >= conv.in_channels:
        return weights, conv.groups
    return _more_channels(_dense(weights, conv.groups), conv.in_channels), 1


def _more_channels(dense: Tensor, channels: int) -> Tensor:
    missing = channels - dense.shape[1]
    return F.pad(dense, (0, 0, 0, 0, 0, missing)) if missing > 0 else dense


def folded_weights(dense: Tensor, stride: Pair) -> Tensor:
    """The kernel's taps within one stride become channels; the last ones are filled with zeros."""
    if stride == (1, 1):
        return dense
    out, channels, height, width = dense.shape
    dense = F.pad(dense, (0, -width % stride[1], 0, -height % stride[0]))
    steps = dense.shape[2] // stride[0], dense.shape[3] // stride[1]
    split = dense.reshape(out, channels, steps[0], stride[0], steps[1], stride[1])
    return split.permute(0, 3, 5, 1, 2, 4).reshape(out, -1, *steps)


def _unfolded(dense: Tensor, conv: Convolution) -> Tensor:
    out, channels, *steps = dense.shape
    across, down = conv.stride[1], conv.stride[0]
    split = dense.reshape(out, down, across, channels // (down * across), *steps)
    whole = split.permute(0, 3, 4, 1, 5, 2).reshape(out, -1, steps[0] * down, steps[1] * across)
    return whole[:, :, : conv.kernel[0], : conv.kernel[1]]


def _is_sparse(layout: WeightLayout) -> bool:
    """Groups that are not folded: each output channel has a few weights in a long column of zeros."""
    return layout.groups > 1 and layout.fold == (1, 1) and layout.scheme != "depthwise"


def _own_places(layout: WeightLayout, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and columns of the matrix where weights (out, in / groups, height, width) stand."""
    out, inner, height, width = weights.shape
    group = torch.arange(out) // (out // layout.groups)
    channel = group.reshape(-1, 1) * inner + torch.arange(inner)
    rows = _rows(layout).reshape(layout.in_channels, height, width)[channel]
    columns = torch.arange(out).reshape(-1, 1, 1, 1).expand_as(rows)
    return rows.to(weights.device), columns.to(weights.device)


def _dense(weights: Tensor, groups: int) -> Tensor:
    """Without groups: zeros where a group does not look."""
    if groups == 1:
        return weights
    out, inner, height, width = weights.shape
    dense = weights.new_zeros(groups, out // groups, groups, inner, height, width)
    own = torch.arange(groups, device=weights.device)
    dense[own, :, own] = weights.reshape(groups, -1, inner, height, width)
    return dense.reshape(out, groups * inner, height, width)


def _own_channels(dense: Tensor, groups: int) -> Tensor:
    """The reverse of `_dense`."""
    if groups == 1:
        return dense
    out, channels, height, width = dense.shape
    blocks = dense.reshape(groups, out // groups, groups, channels // groups, height, width)
    own = torch.arange(groups, device=dense.device)
    return blocks[own, :, own].reshape(out, channels // groups, height, width)


@lru_cache(maxsize=256)
def _rows(layout: WeightLayout) -> Tensor:
    """The row of each (channel, kernel row, kernel column), in that order."""
    height, width = layout.kernel
    channel = torch.arange(layout.in_channels).reshape(-1, 1, 1)
    row = torch.arange(height).reshape(1, -1, 1)
    column = torch.arange(width).reshape(1, 1, -1)
    tap = row * width + column
    if layout.scheme == "block":
        share = layout.in_padded // layout.in_shards
        own, shard = channel % share, channel // share
        inside = tap * share if layout.full_inner else row * round_up(share * width, TILE_SIZE) + column * share
        return (shard * layout.row_block + inside + own).flatten()
    if layout.scheme in ("height", "depthwise") and not layout.full_inner:
        return (row * layout.row_block + column * layout.in_padded + channel).flatten()
    return (tap * layout.in_padded + channel).flatten()


__all__ = ["folded_weights", "prepared_weights", "weights_of", "with_all_channels"]
