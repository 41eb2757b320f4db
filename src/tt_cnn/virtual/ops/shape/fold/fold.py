# SPDX-License-Identifier: Apache-2.0
"""ttnn.fold: space to depth. Each patch of stride_h x stride_w pixels becomes one pixel with all their channels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.layout.reshard import plan_reshard
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.shape.fold.program import plan_fold_device, tile_refusal
from tt_cnn.virtual.ops.shape.fold.transposed import plan_fold_by_transposes, plan_sharded_fold_by_transposes
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.ops.shape.programs import Temporaries, alignment
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.shards import L1_INTERLEAVED, for_whole_grid, lacks_shards
from tt_cnn.virtual.ops.sliding_window.halo import plan_halo
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow, whole
from tt_cnn.virtual.planning.alternatives import TIME, Alternative, CallSite
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import BLOCK, HEIGHT, WIDTH, Layout, ShardOrientation
from tt_cnn.virtual.types.geometry import (
    CoreCoord,
    CoreRange,
    CoreRangeSet,
    Shape,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

Padding = tuple[int, int, int, int, int, int]
"""Top, bottom, left, right; channels before and after."""


def six_paddings(padding: Sequence[int]) -> Padding:
    values = tuple(whole(p, "padding") for p in padding)
    if len(values) == 2:
        return values[0], values[0], values[1], values[1], 0, 0
    if len(values) == 4:
        return (*values, 0, 0)
    if len(values) == 6:
        return values
    raise TypeError(f"padding is {values}; it takes 2, 4 or 6 numbers")


def plan_fold(
    planner: Planner, x: Slot, stride: tuple[int, int], padding: Padding, collapse: bool, override: MemoryConfig | None
) -> Slot:
    config = x.spec.memory_config
    scope = Temporaries(planner)
    if config.memory_layout is HEIGHT and config.is_l1():
        current = _prepared_shards(planner, scope, x, stride, padding)
    else:
        current = _prepared(planner, scope, x, stride, padding)
    result = scope.add(plan_fold_device(planner, current, stride, collapse))
    if override is not None:
        same = current.spec.is_sharded and current.spec.memory_config.memory_layout is override.memory_layout
        target = _override(planner, current.spec if same else x.spec, result.spec, override, stride)
        if target != result.spec.memory_config:
            result = scope.replace(result, plan_to_memory_config(planner, result, target))
    scope.leave(result)
    return result


def _prepared_shards(planner: Planner, scope: Temporaries, x: Slot, stride: tuple[int, int], padding: Padding) -> Slot:
    """Padded by a halo, row-major, and with whole rows of patches on every core."""
    current = x
    if any(padding[:4]):
        current = scope.replace(current, _halo_padded(planner, current, padding[:4]))
    if any(padding[4:]):
        pairs = [(0, 0)] * 3 + [(padding[4], padding[5])]
        current = scope.replace(current, plan_pad(planner, current, pairs, 0.0))
    if current.spec.layout is Layout.TILE:
        current = scope.replace(current, plan_to_layout(planner, current, Layout.ROW_MAJOR, None, None))
    config = _whole_rows_of_patches(planner, current.spec, stride)
    if config is not None:
        current = scope.replace(current, plan_reshard(planner, current, config))
    return current


def _halo_padded(planner: Planner, x: Slot, padding: tuple[int, int, int, int]) -> Slot:
    n, h, w, c = x.spec.shape
    top, bottom, left, right = padding
    flat = plan_reshape(planner, x, Shape([1, 1, n * h * w, c]))
    window = SlidingWindow(n, (h, w), (1, 1), padding=padding)
    padded = plan_halo(planner, flat, window, snap_to_tile=False)
    return plan_reshape(planner, padded, Shape([n, h + top + bottom, w + left + right, c]))


def _whole_rows_of_patches(planner: Planner, spec: Spec, stride: tuple[int, int]) -> MemoryConfig | None:
    """Shards on as many cores as share the rows of patches equally; None where the shards are fine as they are."""
    pixels = stride[0] * spec.shape[2]
    shard = spec.shard
    if shard.shape[0] % pixels == 0:
        return None
    height = prod(tuple(spec.shape)[:3])
    card = planner.card
    cores = next(n for n in range(card.cores, 0, -1) if height // pixels % n == 0)
    grid = num_cores_to_corerangeset(cores, CoreCoord(*card.grid), row_wise=True)
    shape = [round_up(height // cores, pixels), shard.shape[1]]
    return spec.memory_config.with_shard_spec(ShardSpec(grid, shape, shard.orientation))


def _prepared(planner: Planner, scope: Temporaries, x: Slot, stride: tuple[int, int], padding: Padding) -> Slot:
    spec = x.spec
    current = x
    scattered = spec.layout is Layout.ROW_MAJOR and spec.memory_config.memory_layout in (WIDTH, BLOCK)
    if scattered and spec.shard.shape[1] * spec.dtype.element_bytes % alignment(planner.card, spec):
        current = scope.replace(current, plan_to_memory_config(planner, current, L1_INTERLEAVED))
    if any(padding):
        pairs = [(0, 0), padding[:2], padding[2:4], padding[4:]]
        current = scope.replace(current, plan_pad(planner, current, pairs, 0.0))
    if current.spec.layout is Layout.TILE and tile_refusal(planner, current.spec, stride) is not None:
        current = scope.replace(current, plan_to_layout(planner, current, Layout.ROW_MAJOR, None, None))
    return current


def _override(
    planner: Planner, source: Spec, folded: Spec, override: MemoryConfig, stride: tuple[int, int]
) -> MemoryConfig:
    if not lacks_shards(override):
        return override
    shard = source.memory_config.shard_spec
    if shard is not None and source.memory_config.memory_layout is override.memory_layout:
        patch = stride[0] * stride[1]
        shape = [shard.shape[0] // patch, shard.shape[1] * patch]
        return override.with_shard_spec(ShardSpec(shard.grid, shape, shard.orientation))
    made = for_whole_grid(
        planner.card,
        prod(tuple(folded.shape)[:3]),
        folded.shape[3],
        override.memory_layout,
        tiled=False,
        orientation=shard.orientation if shard is not None else ShardOrientation.ROW_MAJOR,
        caller="Fold",
    )
    return override.with_shard_spec(made)


@op("fold")
class Fold(Operation):
    """NHWC space to depth; with `use_transpose_as_fold`, of an NCHW tensor by transposes."""

    def arguments(
        self,
        input: Tensor,
        stride_h: int,
        stride_w: int,
        use_transpose_as_fold: bool = False,
        output_shape: Sequence[int] | None = None,
        padding: Sequence[int] = (0, 0),
        grid_size: CoreRangeSet | None = None,
        override_memory_config: MemoryConfig | None = None,
        collapse_output: bool = False,
    ) -> Call:
        fatal(
            not (use_transpose_as_fold and collapse_output),
            "Fold: collapse_output=True is not supported with use_transpose_as_fold=True (legacy path bypasses "
            "prim::fold). Drop use_transpose_as_fold to use collapse_output.",
        )
        if len(input.shape) != 4:
            raise CardError("Fold op only supports 4D tensors")
        stride = whole(stride_h, "stride_h"), whole(stride_w, "stride_w")
        fatal(min(stride) > 0, f"Fold: stride_h ({stride[0]}) and stride_w ({stride[1]}) must be > 0.")
        return Call(
            [input],
            stride=stride,
            transposes=bool(use_transpose_as_fold),
            output_shape=None if output_shape is None else Shape(output_shape),
            padding=six_paddings(padding),
            grid=grid_size or CoreRangeSet([CoreRange((0, 0), (1, 1))]),
            override=override_memory_config,
            collapse=collapse_output,
        )

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        """By transposes, on more cores than the four of the default."""
        yield from super().alternatives(site)
        if not (site.attributes["transposes"] and site.specs[0].is_sharded):
            return
        columns, rows = site.card.grid
        for height in range(rows, 0, -1):
            grid = CoreRangeSet([CoreRange((0, 0), (columns - 1, height - 1))])
            if grid.num_cores() > site.attributes["grid"].num_cores():
                words = f"grid_size to {columns}x{height} cores"
                yield Alternative("fold grid", words, {"grid": grid}, {"grid_size": grid}, TIME)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        stride: tuple[int, int],
        transposes: bool,
        output_shape: Shape | None,
        padding: Padding,
        grid: CoreRangeSet,
        override: MemoryConfig | None,
        collapse: bool,
    ) -> list[Slot]:
        if not transposes:
            return [plan_fold(planner, x, stride, padding, collapse, override)]
        added = (padding[5], padding[0], padding[2])
        if not x.spec.is_sharded:
            return [plan_fold_by_transposes(planner, x, stride, added, output_shape)]
        fatal(
            x.spec.memory_config.memory_layout is HEIGHT,
            "fold op does not support non height-sharding!",
        )
        return [plan_sharded_fold_by_transposes(planner, x, stride, added, output_shape, grid, override)]

    def numbers(
        self, context: Context, x: torch.Tensor, stride: tuple[int, int], transposes: bool, padding: Padding, **_: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        if transposes:
            return [context.store(_folded_planes(value, stride, padding, context.inputs[0].is_sharded, context))]
        top, bottom, left, right, before, after = padding
        value = torch.nn.functional.pad(value, (before, after, left, right, top, bottom))
        return [context.store(_folded(value, stride).reshape(tuple(context.outputs[0].shape)))]


def _folded(x: torch.Tensor, stride: tuple[int, int]) -> torch.Tensor:
    """NHWC pixels of a patch side by side, row by row."""
    n, h, w, c = x.shape
    patches = x.reshape(n, h // stride[0], stride[0], w // stride[1], stride[1], c)
    return patches.permute(0, 1, 3, 2, 4, 5).reshape(n, h // stride[0], w // stride[1], -1)


def _folded_planes(
    x: torch.Tensor, stride: tuple[int, int], padding: Padding, sharded: bool, context: Context
) -> torch.Tensor:
    """The chain of transposes on an NCHW tensor: channels of a patch come column by column."""
    channels, rows, columns = padding[5], padding[0], padding[2]
    _, _, h, w = x.shape
    high, wide = (h + 2 * rows, w + 2 * columns) if sharded else (h + rows, w + columns)
    front = (columns, rows) if sharded else (0, 0)
    x = torch.nn.functional.pad(
        x,
        (
            front[0],
            round_up(wide, 32) - w - front[0],
            front[1],
            round_up(high, 32) - h - front[1],
            0,
            channels,
        ),
    )
    n, c, h, w = x.shape
    turned = x.permute(0, 3, 1, 2).reshape(n, w // stride[1], c * stride[1], h).transpose(2, 3)
    folded = turned.reshape(n, w // stride[1], h // stride[0], -1).transpose(1, 2)
    n, a, b, c = context.outputs[0].shape
    return folded[:n, :a, :b, :c]
