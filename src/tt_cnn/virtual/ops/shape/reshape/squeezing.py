# SPDX-License-Identifier: Apache-2.0
"""Dimensions of one element put in or taken out: squeeze, unsqueeze, unsqueeze_to_4D, and what other ops use of "
"them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.viewing import host_view
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.geometry import Shape


def plan_four_dims(planner: Planner, x: Slot) -> Slot:
    """Ones in front of a shape of lower rank; shapes of higher rank are left to the caller."""
    if len(x.spec.shape) >= 4:
        return x
    return plan_reshape(planner, x, x.spec.shape.to_rank(4), x.spec.padded_shape.to_rank(4))


def plan_fewer_dims(planner: Planner, x: Slot, rank: int) -> Slot:
    """Back from four dimensions to the rank that a call's input had."""
    if rank >= 4:
        return x
    padded = x.spec.padded_shape
    return plan_reshape(planner, x, x.spec.shape.to_rank(rank), Shape(tuple(padded)[4 - max(rank, 1) :]))


def plan_squeeze(planner: Planner, x: Slot, dims: Sequence[int]) -> Slot:
    logical, padded = list(x.spec.shape), list(x.spec.padded_shape)
    rank = len(logical)
    ordered = sorted((d + rank if d < 0 else d for d in dims), reverse=True)
    for i, dim in enumerate(ordered):
        fatal(i == 0 or dim != ordered[i - 1], f"dim {dim} appears multiple times in the list of dims")
        fatal(
            0 <= dim < rank,
            f"Dimension out of range (expected to be in range of [{-rank},{rank - 1}], but got {dim})",
        )
        if x.spec.shape[dim] == 1:
            del logical[dim], padded[dim]
    if len(logical) == rank:
        return x
    return plan_reshape(planner, x, Shape(logical), Shape(padded))


def unsqueezed(shape: Shape, dim: int) -> Shape:
    rank = len(shape)
    fatal(
        -rank - 1 <= dim <= rank,
        f"Dimension out of range (expected to be in range of [{-rank - 1},{rank}], but got {dim})",
    )
    dims = list(shape)
    dims.insert(dim + rank + 1 if dim < 0 else dim, 1)
    return Shape(dims)


def plan_unsqueeze(planner: Planner, x: Slot, dim: int) -> Slot:
    shape = unsqueezed(x.spec.shape, dim)
    return plan_reshape(planner, x, shape, shape)


class _Squeezing(Operation):
    """Values stay in their order; the shape is the output's."""

    def numbers(self, context: Context, x: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        return [context.store(context.logical(x).reshape(tuple(context.outputs[0].shape)))]


@op("squeeze")
class Squeeze(_Squeezing):
    """Dimensions of one element taken out: those named, or all."""

    def arguments(self, input_tensor: Tensor, dim: int | Sequence[int] | None = None) -> Call:
        dims = range(len(input_tensor.shape)) if dim is None else [dim] if isinstance(dim, int) else dim
        return Call([input_tensor], dims=tuple(dims))

    def shortcut(self, call: Call) -> Any:
        (x,) = call.tensors
        if x._buffer is not None:
            return None
        rank = len(x.shape)
        gone = {d % rank for d in call.attributes["dims"] if x.shape[d] == 1}
        return host_view(x, Shape([d for i, d in enumerate(x.shape) if i not in gone])) if gone else x

    def plan(self, planner: Planner, x: Slot, dims: tuple[int, ...]) -> list[Slot]:
        return [plan_squeeze(planner, x, dims)]


@op("unsqueeze")
class Unsqueeze(_Squeezing):
    """A dimension of one element put in."""

    def arguments(self, input_tensor: Tensor, dim: int) -> Call:
        return Call([input_tensor], dim=int(dim))

    def shortcut(self, call: Call) -> Any:
        (x,) = call.tensors
        return host_view(x, unsqueezed(x.shape, call.attributes["dim"])) if x._buffer is None else None

    def plan(self, planner: Planner, x: Slot, dim: int) -> list[Slot]:
        return [plan_unsqueeze(planner, x, dim)]


@op("unsqueeze_to_4D")
class UnsqueezeToFour(_Squeezing):
    """Ones in front until there are four dimensions."""

    def arguments(self, tensor: Tensor) -> Call:
        if len(tensor.shape) > 4:
            raise CardError("Tensor rank is greater than 4")
        return Call([tensor])

    def shortcut(self, call: Call) -> Any:
        (x,) = call.tensors
        if len(x.shape) == 4:
            return x
        return host_view(x, x.shape.to_rank(4)) if x._buffer is None else None

    def plan(self, planner: Planner, x: Slot) -> list[Slot]:
        return [plan_four_dims(planner, x)]
