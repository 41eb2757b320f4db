# SPDX-License-Identifier: Apache-2.0
"""grid_sample: an image sampled at the points of a grid, between its four neighbours or at the nearest of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.network import Way, page_move_cycles, transaction_cycles
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import matrix_unit
from tt_cnn.virtual.numerics.bits import keep_mantissa
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.layout.time import latency_cycles
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.pool.grid_points import NEAREST, Corners, Grid, corners_of, read_prepared
from tt_cnn.virtual.ops.shape.programs import aligned_page, cores_for
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.compute_config import WormholeComputeKernelConfig
from tt_cnn.virtual.types.enums import (
    BLOCK,
    HEIGHT,
    WIDTH,
    Arch,
    BufferType,
    DataType,
    Layout,
    MathFidelity,
    ShardOrientation,
)
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec

_NEIGHBOURS = 4
_BUFFERED = 2
_REDUCED_AT_ONCE, _WITH_WIDE_REGISTERS = 8, 4
"""Tiles of channels that one reduction takes; fewer where registers hold float32."""
_FEW_CHANNELS = 224
"""Up to which reading pixels takes longer than mixing them on Blackhole."""
_FLOAT_OPERATIONS, _FLOAT_CYCLES = 25, 110
"""A point's place and the weights of its pixels, worked out by a processor that has no floating point: products, sums,
comparisons and conversions of grid_sample_reader_common.hpp, each in software."""
_BFLOAT16_MANTISSA = 7
_FLOATS = (DataType.BFLOAT16, DataType.FLOAT32)


@dataclass(frozen=True, kw_only=True)
class GridSampleProgram(ComputeProgram):
    """Each core has points of the grid; it reads the pixels around them and mixes them."""

    suffix: ClassVar[str] = "Operation"

    op: str = "GridSample"
    grid: Grid
    align_corners: bool
    points: int
    """Of the busiest core."""
    readers: int
    """Processors that read pixels."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        image, output = step.inputs[0].spec, step.outputs[0].spec
        pixels = self.points * (1 if self.grid.mode == NEAREST else _NEIGHBOURS)
        size = image.page_bytes
        # the pixels of a point are waited for before those of the next are asked for
        waiting = self.points * (latency_cycles(image, figures) + figures.barrier_cycles)
        if not self.grid.prepared:
            waiting += self.points * _FLOAT_OPERATIONS * _FLOAT_CYCLES
        if image.memory_config.is_dram():
            reading = page_move_cycles(figures, image, pixels, size, step.cores.num_cores(), read=True)
        else:
            reading = pixels * transaction_cycles(figures, Way.L1_READ, size, figures.page_cycles)
        tiles = div_up(image.shape[-1], TILE_SIZE)
        a_tile = figures.pool_tile_cycles + _NEIGHBOURS * figures.pool_row_cycles
        mixing = self.points * (figures.pool_stick_cycles + tiles * a_tile)
        mixing = 0.0 if self.grid.mode == NEAREST else mixing
        writing = 0.0
        if not output.is_sharded:
            sticks = div_up(output.num_pages, step.cores.num_cores())
            writing = page_move_cycles(figures, output, sticks, output.page_bytes, step.cores.num_cores(), read=False)
        moving = max((reading + waiting) / self.readers, writing)
        return Cycles(max(moving, mixing), matrix=mixing, noc=moving)


@op("grid_sample")
class GridSample(Operation):
    """`ttnn.grid_sample` of (N, H, W, C): the grid holds x and y from -1 to 1, or what was prepared of them."""

    def arguments(
        self,
        input_tensor: Tensor,
        grid: Tensor,
        *,
        mode: str = "bilinear",
        padding_mode: str = "zeros",
        align_corners: bool = False,
        use_precomputed_grid: bool = False,
        batch_output_channels: bool = False,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: WormholeComputeKernelConfig | None = None,
    ) -> Call:
        compute = None if compute_kernel_config is None else Compute.of(compute_kernel_config)
        asked = Grid(mode, use_precomputed_grid, batch_output_channels)
        options: dict[str, Any] = {"align_corners": align_corners, "padding": padding_mode, "compute": compute}
        return Call([input_tensor, grid], asked=asked, memory_config=memory_config, **options)

    def plan(
        self,
        planner: Planner,
        image: Slot,
        points: Slot,
        asked: Grid,
        memory_config: MemoryConfig | None,
        align_corners: bool,
        padding: str,
        compute: Compute | None,
    ) -> list[Slot]:
        x, grid = image.spec, points.spec
        _check(x, grid, asked, padding)
        config = memory_config or grid.memory_config
        fatal(
            config.memory_layout not in (BLOCK, WIDTH),
            "Output tensor must have INTERLEAVED or HEIGHT_SHARDED memory layout",
        )
        count = grid.shape[0] * grid.shape[1] * grid.shape[2]
        cores = grid.shard.grid if grid.is_sharded else cores_for(planner.card, count)
        shape = asked.output_shape(x.shape, grid.shape)
        placed = _placed(planner, x, grid, asked, config, cores, count)
        output = planner.allocate(Spec(shape, x.dtype, Layout.ROW_MAJOR, placed))
        at_a_core = grid.shard.shape[0] if grid.is_sharded else div_up(count, cores.num_cores())
        split = _two_readers(planner.card.arch, x, grid, asked)
        program = GridSampleProgram(
            factory=f"GridSample{'Bilinear' if asked.mode == 'bilinear' else 'Nearest'}ProgramFactory",
            cores=cores,
            buffers=_buffers(planner, image, points, output, cores, asked, compute, split),
            compute=compute,
            grid=asked,
            align_corners=align_corners,
            points=at_a_core * asked.factor(grid.shape),
            readers=2 if split else 1,
        )
        planner.dispatch(program, [image, points], [output])
        return [output]

    def numbers(self, context: Context, image: torch.Tensor, points: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        program = context.program(GridSampleProgram)
        asked, out = program.grid, context.outputs[0]
        x, grid = context.logical(image), context.logical(points, 1)
        n, height, width, channels = x.shape
        fatal(
            asked.mode in ("bilinear", NEAREST),
            f"grid_sample has no numbers for mode {asked.mode!r}: TT-NN takes its nearest program then",
        )
        flat = grid.reshape(n, -1, asked.elements)
        if asked.prepared:
            corners = read_prepared(flat, asked.mode)
        else:
            corners = corners_of(flat, height, width, program.align_corners)
            if context.engine.numerics != "native":
                corners = Corners(corners.rows, corners.columns, keep_mantissa(corners.weights, _BFLOAT16_MANTISSA))
        four = _gathered(x, corners, asked.mode)
        if asked.mode == NEAREST:
            return [context.store(four[..., 0, :].reshape(tuple(out.shape)))]
        weights = corners.weights[..., None, :]
        if context.engine.numerics == "native":
            mixed = weights.to(four.dtype) @ four
        else:
            fidelity = MathFidelity.HiFi4 if program.compute is None else program.compute.fidelity
            mixed = matrix_unit.matmul(weights, four, fidelity, exact=False)  # each point has weights of its own
        return [context.store(mixed.reshape(n, -1, channels).reshape(tuple(out.shape)))]


def _gathered(x: torch.Tensor, corners: Corners, mode: str) -> torch.Tensor:
    """(N, points, pixels, channels): the pixels around each point; what lies outside is zero."""
    n, height, width, channels = x.shape
    offsets = ((0, 0),) if mode == NEAREST else ((0, 0), (0, 1), (1, 0), (1, 1))
    pixels = []
    for down, across in offsets:
        rows, columns = corners.rows + down, corners.columns + across
        inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
        at = rows.clamp(0, height - 1) * width + columns.clamp(0, width - 1)
        found = x.reshape(n, height * width, channels).gather(1, at[..., None].expand(-1, -1, channels))
        pixels.append(torch.where(inside[..., None], found, 0.0))
    return torch.stack(pixels, -2)


# --- plan -------------------------------------------------------------------------------------------------------------


def _placed(
    planner: Planner, x: Spec, grid: Spec, asked: Grid, config: MemoryConfig, cores: CoreRangeSet, count: int
) -> MemoryConfig:
    """Interleaved where bilinear samples are asked for so; else each core keeps the samples of its points."""
    as_asked = config.shard_spec is not None or (asked.mode == "bilinear" and not config.is_sharded())
    if as_asked and not grid.is_sharded:
        return config
    rows = grid.shard.shape[0] if grid.is_sharded else div_up(count, cores.num_cores())
    orientation = grid.shard.orientation if grid.is_sharded else ShardOrientation.ROW_MAJOR
    factor = asked.factor(grid.shape)
    size = [rows, x.shape[-1] * factor] if asked.in_channels else [rows * factor, x.shape[-1]]
    return MemoryConfig(HEIGHT, BufferType.L1, ShardSpec(cores, size, orientation))


def _two_readers(arch: Arch, x: Spec, grid: Spec, asked: Grid) -> bool:
    """Both processors of a core read pixels (`should_use_split_reader`): not where one of them is slow at it."""
    if asked.mode != "bilinear":
        return True
    if not grid.is_sharded or not asked.prepared:
        return grid.is_sharded
    return not x.memory_config.is_dram() and (arch is Arch.WORMHOLE_B0 or x.shape[-1] <= _FEW_CHANNELS)


def _buffers(
    planner: Planner,
    image: Slot,
    points: Slot,
    output: Slot,
    cores: CoreRangeSet,
    asked: Grid,
    compute: Compute | None,
    split: bool,
) -> tuple[CircularBuffer, ...]:
    x, grid, out = image.spec, points.spec, output.spec
    stick = grid.shape[-1] * grid.dtype.element_bytes
    if grid.is_sharded:
        read: CircularBuffer = CircularBuffer(grid.shard.shape[0] * stick, cores, alias=points, name="grid")
    else:
        read = CircularBuffer(aligned_page(planner.card, grid), cores, name="grid")
    size = out.shape[-1] * out.dtype.element_bytes
    if out.is_sharded and (grid.is_sharded or asked.mode != "bilinear"):
        written = CircularBuffer(out.shard.shape[0] * size, cores, alias=output, name="output")
    else:
        written = CircularBuffer(_BUFFERED * size, cores, name="output")
    if asked.mode != "bilinear":
        second = () if grid.is_sharded else (CircularBuffer(read.bytes, cores, name="second grid"),)
        zeros = CircularBuffer(size, cores, name="zeros")
        return (read, *second, zeros, written)
    wide = compute is not None and compute.fp32 and not compute.full_sync
    at_once = min(div_up(x.shape[-1], TILE_SIZE), _WITH_WIDE_REGISTERS if wide else _REDUCED_AT_ONCE)
    tile = x.dtype.tile_bytes
    names = ("", "second ") if split else ("",)
    pixels = tuple(CircularBuffer(_BUFFERED * at_once * tile, cores, name=f"{name}pixels") for name in names)
    weights = tuple(CircularBuffer(_BUFFERED * tile, cores, name=f"{name}weights") for name in names)
    return (read, *pixels, *weights, written)


def _check(x: Spec, grid: Spec, asked: Grid, padding: str) -> None:
    for name, spec, dims in (("Input", x, "N, H, W, C"), ("Grid", grid, "N, H_out, W_out, coords")):
        rank = len(spec.shape)
        fatal(rank == 4, f"{name} tensor must be 4D ({dims}), but got shape {spec.shape} with {rank} dimensions")
    last = grid.shape[-1]
    kind = (
        "Precomputed grid tensor last dimension must be a multiple of {} (for h_nw, w_nw, weight_nw, weight_ne, "
        "weight_sw, weight_se)"
        if asked.prepared
        else "Standard grid tensor last dimension must be a multiple of {} (for x, y coordinates)"
    )
    fatal(
        last % asked.elements == 0 and last >= asked.elements,
        f"{kind.format(asked.elements)}, but got {last} in shape {grid.shape}",
    )
    fatal(
        x.shape[0] == grid.shape[0],
        f"Batch size mismatch: input tensor shape {x.shape} has batch size {x.shape[0]}, but grid tensor shape "
        f"{grid.shape} has batch size {grid.shape[0]}",
    )
    fatal(
        not asked.in_channels or asked.factor(grid.shape) > 1,
        "batch_output_channels=True requires grid batching factor K > 1. Use a batched grid with multiple coordinate "
        "sets per row of grid.",
    )
    fatal(not x.dtype.is_block_float, f"Only TILE layout is supported for {x.dtype.name} dtype!")
    fatal(x.dtype in _FLOATS, "Input tensor must be BFLOAT16 or FLOAT32")
    if asked.prepared:
        fatal(grid.dtype is DataType.BFLOAT16, "Precomputed grid tensor must be BFLOAT16")
    fatal(grid.dtype in _FLOATS, "Grid tensor must be BFLOAT16 or FLOAT32")
    for name, spec in (("Input", x), ("Grid", grid)):
        fatal(spec.layout is Layout.ROW_MAJOR, f"{name} tensor must be ROW_MAJOR layout")
    fatal(padding == "zeros", "Only zeros padding mode is currently supported")
    fatal(
        asked.mode != NEAREST or asked.prepared,
        "use_precomputed_grid = false is not supported with mode = 'nearest'. Please use precomputed grid with nearest "
        "mode.",
    )
    for name, spec in (("Input", x), ("Grid", grid)):
        fatal(
            spec.memory_config.memory_layout not in (BLOCK, WIDTH),
            f"{name} tensor must have INTERLEAVED or HEIGHT_SHARDED memory layout",
        )
    fatal(
        x.shape[-1] % TILE_SIZE == 0,
        f"Input tensor last dimension must be divisible by TILE_WIDTH ({TILE_SIZE}), but got {x.shape[-1]} in padded "
        f"shape {x.padded_shape}",
    )
