# SPDX-License-Identifier: Apache-2.0
"""Tensors of more than four dimensions: the layout ops see four, the leading ones joined (views on the same memory)."""

from __future__ import annotations

from math import prod

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec


def to_four(planner: Planner, slot: Slot) -> Slot:
    if len(slot.spec.shape) <= 4:
        return slot
    shape = four_dims(slot.spec.shape)
    by_reshape = slot.spec.shape[0] != 1 and slot.spec.layout is Layout.ROW_MAJOR
    return planner.view(slot, _reshaped(slot.spec, shape) if by_reshape else _with_shape(slot.spec, shape))


def back_to(planner: Planner, slot: Slot, shape: Shape) -> Slot:
    """A reshape to the shape that the call had; padding beyond whole tiles is forgotten."""
    spec = slot.spec
    if spec.shape == shape:
        return slot
    if spec.layout is Layout.ROW_MAJOR:
        return planner.view(slot, _reshaped(spec, shape))
    return planner.view(slot, Spec(shape, spec.dtype, spec.layout, spec.memory_config))


def viewed_as(planner: Planner, slot: Slot, source: Spec) -> Slot:
    """Rows of four dimensions under the shape of the tiles they came from, padding included (`untilize` does this)."""
    spec = slot.spec
    if spec.shape == source.shape:
        return slot
    if not spec.is_sharded:
        size, page = spec.num_pages * spec.page_bytes, source.physical[1] * spec.dtype.element_bytes
        fatal(
            size % page == 0,
            f"For valid non-interleaved buffers page size {page} must equal buffer size {size}. For "
            "interleaved-buffers, buffer size should be divisible by the page size",
        )
        fatal(spec.volume >= source.volume, "MeshBuffer must be large enough to hold the tensor.")
    return planner.view(slot, _with_shape(spec, source.shape))


def four_dims(shape: Shape) -> Shape:
    dims = tuple(shape)
    return Shape((prod(dims[:-3]), *dims[-3:])) if len(dims) > 4 else shape


def _reshaped(spec: Spec, shape: Shape) -> Spec:
    """A reshape forgets padding of the width: shards then get the logical width, and as much height as they lose."""
    padded, width = spec.padded_shape[-1], shape[-1]
    if not spec.is_sharded or padded == width:
        return _with_shape(spec, shape)
    rows, columns = spec.shard.shape
    fatal(
        columns == padded,
        "Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input "
        f"last dimension. Input shape: {spec.padded_shape}, New shape: {shape}, Shard width: {columns}",
    )
    shard = ShardSpec(spec.shard.grid, (rows * columns // width, width), spec.shard.orientation)
    return Spec(shape, spec.dtype, spec.layout, spec.memory_config.with_shard_spec(shard))


def _with_shape(spec: Spec, shape: Shape) -> Spec:
    return Spec(shape, spec.dtype, spec.layout, spec.memory_config, spec.alignment)
