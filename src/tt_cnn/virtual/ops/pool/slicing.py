# SPDX-License-Identifier: Apache-2.0
"""Pools out of DRAM: whole through L1 where that fits, else part after part. Sliced outputs stay images in DRAM."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.slice_steps import plan_padded_slice, plan_slice_write
from tt_cnn.virtual.ops.conv2d.slices import Part
from tt_cnn.virtual.ops.layout.to_memory_config import plan_to_memory_config
from tt_cnn.virtual.ops.pool.buffers import buffers_of, need_of_buffers
from tt_cnn.virtual.ops.pool.plan import plan_in_l1
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.pool.sharding import best_scheme, input_config
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.halo import halo_dtype
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.slicing import (
    ALONG_HEIGHT,
    NAMES,
    Range,
    check_count,
    chosen_slicing,
    needed_input,
    output_ranges,
    sliced_size,
)
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


def runs_in_l1(spec: Spec, wish: Wish, slicing: Slicing | None) -> bool:
    """`determine_pool2d_execution_path`: slices only out of DRAM, and never with indices."""
    if wish.indices or spec.memory_config.buffer_type is not BufferType.DRAM:
        return True
    return slicing is not None and (slicing.kind is SliceTypeEnum.L1Full or slicing.count == 1)


@dataclass(frozen=True)
class SlicedPool:
    """A pool with everything that decides how it is sliced (`Pool2dSliceAttr`)."""

    pool: Pool
    wish: Wish
    scheme: TensorMemoryLayout
    input_layout: Layout
    input_dtype: DataType
    grid: Pair

    def part(self, rows: Range, columns: Range) -> tuple[Part, Pool]:
        """A rectangle of the output: the input it needs, and the pool that makes it."""
        pool = self.pool
        height, width = pool.window.output_hw
        top, bottom, left, right = pool.padding
        ceil_h, ceil_w = pool.window.ceil_padding
        covered = pool.window.dilated
        in_rows, before, after = needed_input(rows, height, pool.height, pool.stride[0], covered[0], top, bottom)
        in_columns, first, last = needed_input(columns, width, pool.width, pool.stride[1], covered[1], left, right)
        wanted = columns[1] - columns[0]
        wide = round_up(wanted, TILE_SIZE) if self.wish.tiled else wanted
        if wide != wanted:
            last = (wide - 1) * pool.stride[1] - (in_columns[1] - in_columns[0]) + covered[1]
        padding = before, after, first, last
        ceil_pad = (ceil_h if rows[1] == height else 0), (ceil_w if columns[1] == width else 0)
        own = pool.but(
            height=in_rows[1] - in_rows[0],
            width=in_columns[1] - in_columns[0],
            padding=padding,
            ceil_mode=pool.ceil_mode or any(ceil_pad),
            ceil_pad=ceil_pad,
        )
        return Part(rows, columns, in_rows, in_columns, padding), own

    def input_config(self, part: Part) -> MemoryConfig:
        """The shards that a part of the input is put into."""
        pool = self.pool
        rows = pool.batch * (part.in_rows[1] - part.in_rows[0]) * (part.in_columns[1] - part.in_columns[0])
        if self.input_layout is Layout.TILE:
            rows = round_up(rows, TILE_SIZE)
        return input_config(
            pool, self.wish.but(scheme=self.scheme), rows, self.input_layout, self.grid, self._output_pixels(part)
        )

    def _output_pixels(self, part: Part) -> int:
        wide = part.out_columns[1] - part.out_columns[0]
        wide = round_up(wide, TILE_SIZE) if self.wish.tiled else wide
        return self.pool.batch * (part.out_rows[1] - part.out_rows[0]) * wide

    def need(self, part: Part, own: Pool) -> int:
        """Bytes per core while the part is haloed or pooled (`calculate_L1_usage_for_pool2d_slice`)."""
        config = self.input_config(part)
        assert config.shard_spec is not None
        height, width = config.shard_spec.shape
        parallel = ParallelConfig.of(config)
        element = halo_dtype(self.input_dtype).element_bytes
        window = self.pool.but(height=own.height, width=own.width, padding=own.padding).window
        sticks = shard_boundaries(window, parallel.cores_nhw, self.wish.tiled).most_sticks
        halo = sticks * width * element
        overhead = 2 * round_up(width * element, 16)
        if self.input_layout is Layout.TILE:
            overhead += 4 * div_up(width, TILE_SIZE) * halo_dtype(self.input_dtype).tile_bytes
        rows = self._output_pixels(part) // self.pool.batch // parallel.cores_nhw
        rows = round_up(rows, TILE_SIZE) if self.wish.tiled else rows
        asked = own.but(padding=(own.padding[0], 0, own.padding[2], 0), ceil_mode=self.pool.ceil_mode)
        buffers = buffers_of(asked, self.wish, parallel.cores_c, (rows, width), self.wish.dtype)
        pooled = need_of_buffers(asked, self.wish, buffers, rows) + rows * width * element
        return max(height * width * element + halo + overhead, halo + pooled)

    def largest_need(self, slicing: Slicing) -> int:
        parts = (self.part(*ranges) for ranges in self.ranges(slicing))
        return max((self.need(part, own) for part, own in parts), default=0)

    def ranges(self, slicing: Slicing) -> list[tuple[Range, Range]]:
        return list(output_ranges(slicing, self.pool.window.output_hw, self.wish.layout))


def plan_from_dram(planner: Planner, source: Slot, pool: Pool, wish: Wish, given: Slicing | None) -> list[Slot]:
    spec = source.spec
    scheme = wish.scheme or best_scheme(pool, wish, spec.layout, planner.card.grid)
    sliced = SlicedPool(pool, wish, scheme, spec.layout, spec.dtype, planner.card.grid)
    output_hw = pool.window.output_hw
    slicing = chosen_slicing(
        given, (pool.height, pool.width), output_hw, wish.layout, planner.memory.l1, sliced.largest_need
    )
    _check_smallest(pool, slicing)
    if slicing.count == 1:
        return plan_in_l1(planner, source, pool, wish)
    image = Shape((pool.batch, pool.height, pool.width, pool.channels))
    held = source if spec.shape == image else plan_reshape(planner, source, image, image)
    shape = Shape((pool.batch, *output_hw, pool.channels))
    output = planner.allocate(Spec(shape, wish.dtype, wish.layout, DRAM_MEMORY_CONFIG))
    check_count(slicing, output_hw, wish.layout)
    inner = wish.but(memory_config=None, scheme=None, deallocate_input=True, reallocate_halo=True)
    for ranges in sliced.ranges(slicing):
        part, own = sliced.part(*ranges)
        piece = plan_padded_slice(planner, held, part, sliced.input_config(part))
        (result,) = plan_in_l1(planner, piece, own, inner)
        result = _writable(planner, result, part, pool, wish)
        plan_slice_write(planner, result, output, part)
        planner.free(result)
    if held.buffer != source.buffer:
        planner.free(held)
    return [output]


def _writable(planner: Planner, result: Slot, part: Part, pool: Pool, wish: Wish) -> Slot:
    """Row-major width shards are collected first, and take the shape of their part."""
    if wish.tiled or result.spec.memory_config.memory_layout in (HEIGHT, BLOCK):
        return result
    collected = plan_to_memory_config(planner, result, L1_MEMORY_CONFIG, None)
    planner.free(result)
    rows, columns = part.out_rows[1] - part.out_rows[0], part.out_columns[1] - part.out_columns[0]
    shape = Shape((pool.batch, rows, columns, pool.channels))
    padded = Shape((pool.batch, rows, columns, collected.spec.padded_shape[3]))
    return plan_reshape(planner, collected, shape, padded)


def _check_smallest(pool: Pool, slicing: Slicing) -> None:
    """Every slice must hold a whole window; slices are counted evenly here, whatever the layout."""
    if slicing.count == 1:
        return
    axis = 0 if slicing.kind is ALONG_HEIGHT else 1
    size = (pool.height, pool.width)[axis]
    window = pool.window.dilated[axis]
    out = sliced_size(pool.window.output_hw, slicing.kind)
    smallest = 2**32 - 1
    for i in range(slicing.count):
        first, behind = i * out // slicing.count, (i + 1) * out // slicing.count
        start = max(0, first * pool.stride[axis] - pool.padding[2 * axis])
        end = min(size, (behind - 1) * pool.stride[axis] - pool.padding[2 * axis] + window)
        smallest = min(smallest, (end - start) % 2**32)
    (k_h, k_w), (s_h, s_w), (d_h, d_w), name = pool.kernel, pool.stride, pool.dilation, NAMES[slicing.kind]
    out_h, out_w = pool.window.output_hw
    fatal(
        smallest >= window,
        f"Cannot fit Pool2D operation in L1 memory with DRAM slicing. The smallest input slice (size={smallest}) in "
        f"the {name} dimension is smaller than the effective kernel size ({window}). Kernel: {k_h}x{k_w}, Stride: "
        f"{s_h}x{s_w}, Dilation: {d_h}x{d_w}, Num slices: {slicing.count}, Slicing dimension: {name}. Input shape: "
        f"{pool.height}x{pool.width}, Output shape: {out_h}x{out_w}, Channels: {pool.channels}. This means the tensor "
        "cannot be processed even with DRAM slicing. Consider: (1) reducing kernel size, (2) reducing dilation, (3) "
        "increasing stride, or (4) if possible, increasing available L1 memory to reduce the number of slices needed.",
    )
