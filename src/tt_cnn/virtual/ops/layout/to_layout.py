# SPDX-License-Identifier: Apache-2.0
"""to_layout: rows to tiles and back, with the padding that tiles need; on the card and on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.layout.relayout import Relayout
from tt_cnn.virtual.ops.layout.tilize import plan_tilize
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding, tiled_shape
from tt_cnn.virtual.ops.layout.untilize import plan_untilize
from tt_cnn.virtual.ops.layout.untilize_with_unpadding import plan_untilize_with_unpadding
from tt_cnn.virtual.ops.operation import Call, op
from tt_cnn.virtual.ops.shape.pad.pad import plan_pad
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.conversion import pad_to, unpad
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import L1_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.whole_tiles import cut_tiles, in_whole_tiles, is_whole_tiles


def _check_whole_tiles(config: MemoryConfig) -> None:
    """Shards must be cut at tiles, whichever way the conversion goes."""
    shard = config.shard_spec
    if shard is not None:
        fatal(is_whole_tiles(shard), cut_tiles(shard))


def plan_to_layout(
    planner: Planner,
    x: Slot,
    layout: Layout,
    dtype: DataType | None,
    config: MemoryConfig | None,
    grid: CoreRangeSet | None = None,
    pad_value: float = 0.0,
) -> Slot:
    spec = x.spec
    if spec.layout is layout:
        return x
    target = config or spec.memory_config
    _check_whole_tiles(target)
    if layout is Layout.ROW_MAJOR:
        return _to_rows(planner, x, dtype, target, grid)
    if len(spec.shape) < 2:
        fatal(
            not spec.is_sharded,
            f"ttnn::to_layout: Cannot convert a sharded device tensor with rank {len(spec.shape)} to TILE_LAYOUT. "
            "Tilize requires shard dimensions divisible by tile size, but rank promotion to 2D produces a shard height "
            "of 1. Move to interleaved first, then tilize.",
        )
    _check_whole_tiles(spec.memory_config)
    if len(spec.padded_shape) >= 2 and spec.padded_shape == tiled_shape(spec.padded_shape):
        return plan_tilize(planner, x, target, dtype, grid=grid)
    if spec.memory_config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return _pad_and_tilize(planner, x, target, dtype, grid, pad_value)
    _check_pad_value(spec.dtype, pad_value)
    return plan_tilize_with_padding(planner, x, tiled_shape(spec.shape), target, dtype, grid=grid)


def _to_rows(
    planner: Planner, x: Slot, dtype: DataType | None, config: MemoryConfig, grid: CoreRangeSet | None
) -> Slot:
    spec = x.spec
    same = dtype is None or dtype is spec.dtype
    fatal(
        same or (spec.dtype is DataType.BFLOAT8_B and dtype is DataType.BFLOAT16),
        "dtype cannot be different from tensor dtype when converting to ROW_MAJOR_LAYOUT on device (allowed exception: "
        "BFLOAT8_B -> BFLOAT16, which untilize handles natively)!",
    )
    if spec.shape == spec.padded_shape:
        return plan_untilize(planner, x, config, grid=grid)
    ends = [d - 1 for d in spec.shape]
    return plan_untilize_with_unpadding(planner, x, ends, config, grid=grid)


def _pad_and_tilize(
    planner: Planner,
    x: Slot,
    config: MemoryConfig,
    dtype: DataType | None,
    grid: CoreRangeSet | None,
    pad_value: float,
) -> Slot:
    fatal(grid is None, "Pad OP does not currently support sub core grid")
    missing = [(0, want - have) for have, want in zip(x.spec.shape, tiled_shape(x.spec.shape), strict=True)]
    padded = plan_pad(planner, x, missing, pad_value)
    tiles = plan_tilize(planner, padded, config, dtype)
    planner.free(padded)
    return planner.view(tiles, Spec(x.spec.shape, tiles.spec.dtype, Layout.TILE, tiles.spec.memory_config))


def _check_pad_value(dtype: DataType, value: float) -> None:
    if dtype is DataType.INT32:
        fatal(-(2.0**31) <= value < 2.0**31, "Pad value must be in the range of INT32 type")
    elif not dtype.is_float:
        fatal(0.0 <= value < 2.0**32, "Pad value must be in the range of UINT32 type")


def host_to_layout(tensor: Tensor, layout: Layout, pad_value: float = 0.0) -> Tensor:
    """On the host the dtype stays; block floats exist in tiles only."""
    if tensor.layout is layout:
        return tensor
    if tensor.dtype.is_block_float:
        raise CardError("Tensor layout must be ROW_MAJOR for unpadding")
    spec = Spec(tensor.shape, tensor.dtype, layout, tensor.memory_config())
    values = [
        pad_to(unpad(v, tuple(tensor.shape)), tuple(spec.padded_shape), pad_value)
        for v in tensor.host_values("to_layout")
    ]
    return Tensor.on_host(spec, HostStorage(values))


@op("to_layout")
class ToLayout(Relayout):
    def arguments(
        self,
        tensor: Tensor,
        layout: Layout,
        dtype: DataType | None = None,
        memory_config: MemoryConfig | None = None,
        sub_core_grids: CoreRangeSet | None = None,
        pad_value: float = 0.0,
    ) -> Call:
        if not isinstance(layout, Layout) or layout is Layout.INVALID:
            raise TypeError(f"layout is {layout!r}; it must be ttnn.ROW_MAJOR_LAYOUT or ttnn.TILE_LAYOUT")
        return Call(
            [tensor],
            layout=layout,
            dtype=dtype,
            memory_config=memory_config,
            grid=sub_core_grids,
            pad_value=float(pad_value),
        )

    def shortcut(self, call: Call) -> Tensor | None:
        x, layout = call.tensors[0], call.attributes["layout"]
        if x._buffer is None:
            return host_to_layout(x, layout, call.attributes["pad_value"])
        x.buffer(self.name)
        return x if x.layout is layout else None

    def alternatives(self, site: CallSite) -> Iterator[Alternative]:
        """Shards of whole tiles, where the ones asked for cut them."""
        config: MemoryConfig = site.attributes["memory_config"] or site.specs[0].memory_config
        shard = config.shard_spec
        if shard is not None and not is_whole_tiles(shard):
            whole = in_whole_tiles(shard)
            grid, (height, width) = shard.grid.bounding_box().grid_size(), whole.shape
            words = f"memory_config with shards of ({height}, {width}) on these {grid.x}x{grid.y} cores"
            change = {"memory_config": config.with_shard_spec(whole)}
            yield Alternative("shard shape", words, change, change)
            given = site.specs[0]
            if given.is_sharded:
                moved = Spec(given.shape, given.dtype, given.layout, L1_MEMORY_CONFIG)
                words = "its input after ttnn.to_memory_config(input, ttnn.L1_MEMORY_CONFIG)"
                yield Alternative("input", words, {"memory_config": None}, {}, specs={0: moved})
        yield from super().alternatives(site)

    def plan(self, planner: Planner, x: Slot, memory_config: MemoryConfig | None, **options: Any) -> list[Slot]:
        return [plan_to_layout(planner, x, config=memory_config, **options)]
