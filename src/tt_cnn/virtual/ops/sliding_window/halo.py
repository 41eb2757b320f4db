# SPDX-License-Identifier: Apache-2.0
"""The halo step: every core fetches the sticks that its windows touch, with padding, row-major.

It stands before convolutions, pools and bilinear upsampling. Sizes and buffers are those of TT-NN's
halo_device_operation.cpp and untilize_with_halo_program_factory.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.memory.shard_grid import check_cores
from tt_cnn.virtual.ops.sliding_window.boundaries import shard_boundaries
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, WIDTH, ParallelConfig
from tt_cnn.virtual.ops.sliding_window.tables import halo_tables
from tt_cnn.virtual.ops.sliding_window.time import ZEROS_BYTES, halo_cycles
from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.plan import AllocateConfig, CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape, div_up, round_up
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

ComputeKey = tuple[MathFidelity, bool, bool, bool]
"""Fidelity, approximation, float32 accumulation, packer L1 accumulation."""
_KEPT = (DataType.FLOAT32, DataType.UINT16)
"""Dtypes that the halo keeps; all others come out as bfloat16."""
_TABLES = ("first padding table", "second padding table", "first gather table", "second gather table")
"""Of a core's two data movement processors."""


@dataclass(frozen=True, kw_only=True)
class HaloProgram(Program):
    op: str = "Halo"
    factory: str = "UntilizeWithHaloProgramFactory"
    window: SlidingWindow
    padding_value: int
    """The bits of a padding element."""
    tables_in_dram: bool
    compute: ComputeKey
    """Of the op that asks: it computes nothing here, but programs that differ in it are not shared."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        stick = step.outputs[0].spec.shard.shape[1] * step.outputs[0].spec.dtype.element_bytes
        piece = ZEROS_BYTES if self.padding_value == 0 else stick
        return halo_cycles(self.window, step, figures, piece, figures.untilize_cycles)


def compute_key(config: WormholeComputeKernelConfig | None) -> ComputeKey:
    """A compute config as the program cache tells halos apart; without one an op takes HiFi4."""
    if config is None:
        return MathFidelity.HiFi4, True, False, False
    return config.math_fidelity, config.math_approx_mode, config.fp32_dest_acc_en, config.packer_l1_acc


def halo_dtype(dtype: DataType) -> DataType:
    return dtype if dtype in _KEPT else DataType.BFLOAT16


def halo_spec(source: Spec, window: SlidingWindow, cores_nhw: int, snap_to_tile: bool = True) -> Spec:
    """The output of the halo: as many sticks on every core as the neediest core has."""
    sticks = shard_boundaries(window, cores_nhw, snap_to_tile).most_sticks
    dims = list(source.padded_shape)
    dims[2] = div_up(cores_nhw * sticks, dims[0])
    shard = source.shard
    height = div_up(dims[0] * dims[2], cores_nhw)
    config = source.memory_config.with_shard_spec(ShardSpec(shard.grid, (height, shard.shape[1]), shard.orientation))
    return Spec(Shape(dims), halo_dtype(source.dtype), Layout.ROW_MAJOR, config)


def plan_halo(
    planner: Planner,
    source: Slot,
    window: SlidingWindow,
    *,
    snap_to_tile: bool = True,
    tables_in_dram: bool = False,
    padding_value: int = 0,
    compute: ComputeKey | None = None,
) -> Slot:
    """Dispatch the halo; the input stays as it is. Ops that compute otherwise do not share a halo's tables."""
    spec = source.spec
    fatal(spec.is_sharded, "Halo expects sharded input tensor")
    layout = spec.memory_config.memory_layout
    fatal(layout in (HEIGHT, WIDTH, BLOCK), "Only height, width or block sharded tensors are supported.")
    check_row_walk(spec.shard.grid, spec.shard.row_wise or layout is not HEIGHT)
    parallel = ParallelConfig.of(spec.memory_config)
    cores_nhw = parallel.cores_nhw
    tiled = spec.layout is Layout.TILE
    output = planner.allocate(halo_spec(spec, window, cores_nhw, snap_to_tile))
    cores = spec.shard.grid
    if spec.memory_config.is_dram():
        _refuse_dram(planner, cores, tables_in_dram)
    columns = 0 if layout is BLOCK else cores.bounding_box().grid_size().x
    table_bytes = halo_tables(window, cores_nhw, snap_to_tile, spec.shard.shape[0], tiled, columns)
    stick = round_up(spec.shard.shape[1] * output.spec.dtype.element_bytes, planner.card.l1_alignment)
    width = div_up(spec.shard.shape[1], TILE_SIZE)
    buffers = [
        CircularBuffer(_source_bytes(spec, cores_nhw, planner.card.l1_alignment), cores, source, name="input"),
        CircularBuffer(output.spec.shard.shape[0] * stick, cores, output, name="output"),
        CircularBuffer(stick, cores, name="first padding"),
        CircularBuffer(stick, cores, name="second padding"),
    ]
    if tiled:
        untilized = 2 * width * output.spec.dtype.tile_bytes
        buffers += [CircularBuffer(untilized, cores, name=f"{which} untilized") for which in ("first", "second")]
    tables = []
    for name, size in zip(_TABLES, table_bytes, strict=True):
        tables.append(plan_table(planner, size, parallel, tables_in_dram))
        buffers.append(CircularBuffer(size, cores, None if tables_in_dram else tables[-1], name=name))
    program = HaloProgram(
        cores=cores,
        buffers=tuple(buffers),
        window=window,
        padding_value=padding_value,
        tables_in_dram=tables_in_dram,
        compute=compute or compute_key(None),
    )
    planner.dispatch(program, [source], [output], tables)
    return output


@lru_cache(maxsize=1024)
def check_row_walk(grid: CoreRangeSet, row_wise: bool) -> None:
    """Tables address core i as the i-th of the grid's rows from the origin on: other grids are refused (recorded).

    `row_wise` False: shards are distributed column by column.
    """
    columns = grid.bounding_box().grid_size().x
    for i, core in enumerate(grid.cores(row_wise)):
        fatal(
            core == (i % columns, i // columns),
            f"Sliding-window shard grid core {i} is {core.x}-{core.y} but the origin-anchored row walk addresses it as "
            f"{i % columns}-{i // columns}. Only an origin-anchored, row-filled grid is supported; any other grid "
            "hangs max_pool2d/avg_pool2d or silently returns wrong conv2d results (#60513).",
        )


def _refuse_dram(planner: Planner, cores: CoreRangeSet, tables_in_dram: bool) -> None:
    """Shards in DRAM: tables cannot be distributed to cores that only DRAM has, and no circular buffer lies there."""
    if not tables_in_dram:
        check_cores(planner.card, cores, BufferType.L1)
    fatal(False, "Only L1 buffers can have an associated circular buffer!")


def _source_bytes(spec: Spec, cores_nhw: int, alignment: int) -> int:
    """Of the input as the program sees it: tiled rows are counted by their share of the tensor, not by the shard."""
    if spec.layout is Layout.TILE:
        rows = div_up(spec.physical[0] // TILE_SIZE, cores_nhw)
        return rows * div_up(spec.shard.shape[1], TILE_SIZE) * spec.page_bytes
    whole = 4 if spec.dtype is DataType.FLOAT32 else 2  # bytes of an element, integers too
    return spec.shard_pages * round_up(spec.page_shape[1] * whole, alignment)


def plan_table(planner: Planner, size: int, parallel: ParallelConfig, in_dram: bool) -> AllocateConfig:
    """Of so many bytes per core. What lies in DRAM a program copies to buffers of its own."""
    if in_dram:
        return table_in_dram(planner, size, parallel.cores_nhw)
    return table_in_l1_small(planner, size, parallel.grid)


def table_in_l1_small(planner: Planner, size: int, cores: CoreRangeSet) -> AllocateConfig:
    return planner.table_on_cores(round_up(size, planner.card.l1_alignment), cores.num_cores(), row_bytes=size)


def table_in_dram(planner: Planner, size: int, cores_nhw: int) -> AllocateConfig:
    """A row of the table for each core along the height, distributed to the banks; programs copy them to cores."""
    entries = size // DataType.UINT16.element_bytes
    return planner.table_in_dram(
        Spec(Shape([cores_nhw, entries]), DataType.UINT16, Layout.ROW_MAJOR, DRAM_MEMORY_CONFIG)
    )
