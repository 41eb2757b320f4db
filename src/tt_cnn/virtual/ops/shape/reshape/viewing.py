# SPDX-License-Identifier: Apache-2.0
"""The same memory under another shape: `ttnn.view`, and the views that reshape, squeeze, slice and pad end in."""

from __future__ import annotations

from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.layout.relayout import extent, padded_as
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.programs import as_ints
from tt_cnn.virtual.ops.shape.shards import Dims
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.conversion import host_tensor, unpad
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def tile_padded(shape: Dims) -> Shape:
    """The shape with its last two dimensions rounded up to tiles; a vector becomes the first row of a matrix."""
    dims = [1] * (2 - len(shape)) + list(shape)
    dims[-2:] = [round_up(d, TILE_SIZE) for d in dims[-2:]]
    return Shape(dims)


def inferred(volume: int, shape: Dims) -> Shape:
    """A shape with at most one -1, which takes what is left of the volume."""
    dims = as_ints(shape)
    text = "".join(f"{d}," for d in dims)
    if dims.count(-1) > 1:
        raise CardError(f"Shape cannot have more than 1 elements that is set to -1! Shape used: ({text})")
    if -1 not in dims:
        fatal(prod(dims) == volume, "Invalid arguments to reshape")
        return Shape(dims)
    if 0 in dims:
        raise CardError(
            f"cannot reshape tensor of 0 elements into shape ({text}) because the unspecified dimension size -1 can be "
            "any value and is ambiguous"
        )
    known = -prod(dims)
    fatal(known > 0 and volume % known == 0, "Invalid arguments to reshape")
    return Shape([volume // known if d == -1 else d for d in dims])


def viewed_spec(spec: Spec, logical: Shape, padded: Shape) -> Spec:
    """What a view makes of a spec; row-major shards take the new width, with as many elements as before."""
    config = spec.memory_config
    shard = config.shard_spec
    changes_width = padded[-1] != spec.padded_shape[-1]
    if shard is not None and changes_width:
        fatal(
            shard.shape[1] == spec.padded_shape[-1],
            "Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input "
            f"last dimension. Input shape: {spec.padded_shape}, New shape: {padded}, Shard width: {shard.shape[1]}",
        )
        if spec.layout is Layout.ROW_MAJOR:
            width = padded[-1]
            rows = shard.shape[0] * shard.shape[1] // width
            config = MemoryConfig(
                config.memory_layout, config.buffer_type, ShardSpec(shard.grid, [rows, width], shard.orientation)
            )
    if config.shard_spec is not None:
        return Spec(logical, spec.dtype, spec.layout, config)
    return padded_as(logical, spec.dtype, spec.layout, config, padded)


def plan_view(planner: Planner, x: Slot, logical: Shape, padded: Shape | None = None) -> Slot:
    """The tensor under another shape, wherever the library makes one without moving data."""
    padded = logical if padded is None else padded
    spec = viewed_spec(x.spec, logical, padded)
    held = x.spec.num_pages * x.spec.page_bytes
    fatal(
        x.spec.layout is Layout.TILE or padded[-1] == x.spec.padded_shape[-1] or held % max(spec.page_bytes, 1) == 0,
        f"For valid non-interleaved buffers page size {spec.page_bytes} must equal buffer size {held}. For "
        "interleaved-buffers, buffer size should be divisible by the page size",
    )
    fatal(
        spec.num_pages * spec.page_bytes <= held,
        "MeshBuffer must be large enough to hold the tensor.",
    )
    return planner.view(x, spec)


def plan_reshaping_view(planner: Planner, x: Slot, logical: Shape, padded: Shape) -> Slot:
    """The view that reshape makes: tiled shapes that are not whole tiles get their own padding."""
    spec = x.spec
    if spec.shape == logical and spec.padded_shape == padded:
        return x
    if len(logical) == 1:
        return plan_view(planner, x, logical)
    if spec.layout is Layout.TILE and (logical[-1] % TILE_SIZE or extent(logical, 2) % TILE_SIZE):
        return plan_view(planner, x, logical, tile_padded(logical))
    return plan_view(planner, x, logical, padded)


def host_view(tensor: Tensor, logical: Shape) -> Tensor:
    """A host tensor under another shape; its values are laid out again."""
    fatal(
        logical.volume() == tensor.logical_volume(), "Attempting to reshape between two shapes with different volumes"
    )
    values = [unpad(v, tuple(tensor.shape)).reshape(tuple(logical)) for v in tensor.host_values("reshape")]
    return host_tensor(values, tensor.dtype, tensor.layout, DRAM_MEMORY_CONFIG)


@op("view")
class View(Operation):
    """Another shape of the same memory; refused where that would need data to move."""

    def arguments(self, input_tensor: Tensor, shape: Dims) -> Call:
        return Call([input_tensor], shape=inferred(input_tensor.logical_volume(), shape))

    def shortcut(self, call: Call) -> Any:
        (x,), shape = call.tensors, call.attributes["shape"]
        if x.shape == shape:
            return x
        fatal(x._buffer is not None, "View requires the tensor be stored on device, use reshape instead")
        return None

    def plan(self, planner: Planner, x: Slot, shape: Shape) -> list[Slot]:
        return [plan_checked_view(planner, x, shape)]

    def numbers(self, context: Context, x: torch.Tensor, shape: Shape) -> list[torch.Tensor]:
        return [context.store(context.logical(x).reshape(tuple(shape)))]


def plan_checked_view(planner: Planner, x: Slot, shape: Shape) -> Slot:
    old = x.spec.shape
    if old == shape:
        return x
    fatal(
        shape.volume() == old.volume(),
        f"Invalid view, logical volumes are changing from {old.volume()} to {shape.volume()}",
    )
    fatal(
        old[-1] == shape[-1],
        "The last dimension can not change in view, attempting to change last dimension from "
        f"{old[-1]} to {shape[-1]}, use reshape instead",
    )
    before, after = extent(old, 2), extent(shape, 2)
    fatal(
        x.spec.layout is Layout.ROW_MAJOR or before == after or (before % TILE_SIZE == 0 and after % TILE_SIZE == 0),
        f"Invalid second last dims for TILED reshape, from {before} to {after}, use reshape instead\n",
    )
    return plan_reshaping_view(planner, x, shape, shape)
