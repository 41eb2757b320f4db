# SPDX-License-Identifier: Apache-2.0
"""The pool's own program: its output, its circular buffers, its tables of windows and scalars."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.pool.buffers import PoolBuffers, buffers_of, index_dtype, is_large, output_width
from tt_cnn.virtual.ops.pool.checks import check_program
from tt_cnn.virtual.ops.pool.problem import Pool, Wish
from tt_cnn.virtual.ops.pool.time import ideal_pool_cycles, pool_cycles
from tt_cnn.virtual.ops.sliding_window.halo import plan_table
from tt_cnn.virtual.ops.sliding_window.parallel import ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import reader_table
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import BufferType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_ENTRY = 2
_SCALAR_ENTRIES = 3
"""First output row, scalar, row behind the last."""


@dataclass(frozen=True, kw_only=True)
class PoolProgram(Program):
    suffix: ClassVar[str] = ""
    op: str = "Pool2D"
    factory: str = "MultiCore"
    pool: Pool
    """What the program pools: of a sliced pool, one slice."""
    indices: bool
    layout: Layout
    compute: WormholeComputeKernelConfig | None
    in_parts: bool
    """Windows have more rows than one reduction takes."""

    @property
    def fidelity(self) -> MathFidelity | None:
        return None if self.compute is None else self.compute.math_fidelity

    @property
    def sums_at(self) -> MathFidelity:
        return MathFidelity.HiFi4 if self.compute is None else self.compute.math_fidelity

    @property
    def fp32_sums(self) -> bool:
        """Parts are added up in float32, unless a compute configuration says how."""
        return self.in_parts if self.compute is None else self.compute.fp32_dest_acc_en

    def dry_run_refusal(self, step: Step) -> str | None:
        """The factory compares what its circular buffers borrow with what it works out, and takes only an empty L1
        for a dry run (pool_multi_core_program_factory.cpp)."""
        outputs = {slot.buffer for slot in step.outputs}
        borrowed = [b.bytes for b in self.buffers if isinstance(b.alias, Slot) and b.alias.buffer in outputs]
        return f"Global CB size mismatch: actual 0 != expected {sum(borrowed)}"

    def time(self, step: Step, figures: Figures) -> Cycles:
        return pool_cycles(self.pool, self.sums_at, step, figures)

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        return ideal_pool_cycles(self.pool, self.cores.num_cores())


def output_spec(pool: Pool, wish: Wish, parallel: ParallelConfig) -> Spec:
    window = pool.window
    rows = round_up(window.output_pixels, parallel.cores_nhw * (TILE_SIZE if wish.tiled else 1))
    width = output_width(div_up(pool.channels, parallel.cores_c), wish.tiled)
    shard = ShardSpec(parallel.grid, (rows // parallel.cores_nhw, width), parallel.orientation)
    return Spec(
        Shape((1, 1, window.output_pixels, pool.channels)),
        wish.dtype,
        wish.layout,
        MemoryConfig(parallel.layout, BufferType.L1, shard),
    )


def plan_program(planner: Planner, halo: Slot, pool: Pool, wish: Wish, parallel: ParallelConfig) -> list[Slot]:
    """Dispatch the pool on the halo's output; its result, and the indices where they are asked for."""
    spec = output_spec(pool, wish, parallel)
    outputs = [planner.allocate(spec)]
    if wish.indices:
        outputs.append(planner.allocate(spec.with_(dtype=index_dtype(pool))))
    check_program(pool, wish, halo.spec, parallel.cores_c)
    shard = spec.shard.shape
    buffers = buffers_of(pool, wish, parallel.cores_c, (shard[0], shard[1]), wish.dtype)
    cores = parallel.grid
    table = reader_table(pool.window, parallel.cores_nhw, wish.tiled, pool.window.output_pixels, 0)
    in_dram = wish.tables_in_dram
    tables = [plan_table(planner, table, parallel, in_dram)]
    held = table if in_dram else round_up(table // _ENTRY, 4)
    positions = CircularBuffer(held, cores, None if in_dram else tables[0], name="window positions")
    scalars = None
    if not pool.has_one_scalar:
        size = scalar_table(pool, shard[0], parallel.cores_nhw)
        tables.append(plan_table(planner, size, parallel, in_dram))
        held = shard[0] * _SCALAR_ENTRIES * _ENTRY if in_dram else size
        scalars = CircularBuffer(held, cores, None if in_dram else tables[1], name="scalar table")
    program = PoolProgram(
        cores=cores,
        buffers=_circular_buffers(buffers, pool, parallel, halo, outputs, positions, scalars),
        pool=pool,
        indices=wish.indices,
        layout=wish.layout,
        compute=wish.compute,
        in_parts=is_large(pool, parallel.cores_c),
    )
    planner.dispatch(program, [halo], outputs, tables)
    return outputs


def _circular_buffers(
    buffers: PoolBuffers,
    pool: Pool,
    parallel: ParallelConfig,
    halo: Slot,
    outputs: list[Slot],
    positions: CircularBuffer,
    scalars: CircularBuffer | None,
) -> tuple[CircularBuffer, ...]:
    cores = parallel.grid
    made = [CircularBuffer(size, cores, name=name) for name, size in buffers.before_input]
    made += [CircularBuffer(_window_source(pool, parallel, halo.spec), cores, halo, name="input"), positions]
    made += [CircularBuffer(size, cores, name=name) for name, size in buffers.after_input]
    made.append(CircularBuffer(buffers.output, cores, outputs[0], name="output"))
    if buffers.output_indices:
        made.append(CircularBuffer(buffers.output_indices, cores, outputs[1], name="output indices"))
    if scalars is not None:
        made.append(scalars)
    return tuple(made)


def _window_source(pool: Pool, parallel: ParallelConfig, halo: Spec) -> int:
    """The halo's rows as the program sees them: the channels with data, whatever the shard's width."""
    height, width = halo.shard.shape
    channels, shards = pool.channels, parallel.cores_c
    a_shard = (channels - channels % width) // (shards - 1) if channels % width and shards > 1 else channels // shards
    fatal(
        a_shard > 0,
        f"Pool2D: {channels} channels do not fill one of the {shards} shards of width {width} that lie side by side",
        "  TT-NN divides by zero here and ends the process: shard by height, or by fewer columns",
    )
    return height * a_shard * halo.dtype.element_bytes


@lru_cache(maxsize=1024)
def scalar_table(pool: Pool, rows: int, cores_nhw: int) -> int:
    """Bytes per core of the divisors: an entry wherever the number of pixels in a window changes along the rows."""
    areas = window_areas(pool).reshape(-1)
    longest = 1
    whole = pool.batch * areas.size
    for core in range(cores_nhw):
        start = core * rows % whole
        own = areas[(np.arange(rows) + start) % areas.size]
        longest = max(longest, 1 + int(np.count_nonzero(np.diff(own))))
    return longest * _SCALAR_ENTRIES * _ENTRY


def window_areas(pool: Pool) -> np.ndarray:
    """By output row and column: the number of pixels that an average divides by."""
    sides = []
    for axis, size in enumerate((pool.height, pool.width)):
        before, after = pool.padding[2 * axis], pool.padding[2 * axis + 1]
        start = np.arange(pool.window.output_hw[axis]) * pool.stride[axis] - before
        end = np.minimum(start + pool.kernel[axis], size + after)
        if not pool.count_include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, size)
        sides.append(np.maximum(end - start, 0))
    return np.asarray(np.multiply.outer(*sides))
