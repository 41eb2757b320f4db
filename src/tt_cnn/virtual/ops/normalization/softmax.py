# SPDX-License-Identifier: Apache-2.0
"""`softmax` and `softmax_in_place`: along rows, columns or a leading dimension, each a program of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import VectorUnit, matrix_unit, run_unary
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.vector_unit.order import largest
from tt_cnn.virtual.ops.compute_program import ComputeProgram
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding, tiled_shape
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.normalization.configs import SoftmaxDefaultProgramConfig, SoftmaxShardedMultiCoreProgramConfig
from tt_cnn.virtual.ops.normalization.time import softmax_cycles
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged, tiles
from tt_cnn.virtual.ops.reduction.values import reduction_compute, sum_rows
from tt_cnn.virtual.ops.shape.programs import Temporaries, borrowed
from tt_cnn.virtual.planning.plan import CircularBuffer, Planner, Slot
from tt_cnn.virtual.planning.program import Step
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import (
    TILE_SIZE,
    CoreCoord,
    CoreRangeSet,
    div_up,
    num_cores_to_corerangeset,
    round_up,
)
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_BF16, _F32 = DataType.BFLOAT16, DataType.FLOAT32
_LONG = 80
"""Tiles that the kernel for long rows holds at a time."""
_L1_SHARE = 0.9
_GENERAL_L1 = 512 * 1024
"""Up to which address the general programs may reach to hold whole rows or columns."""


@dataclass(frozen=True, kw_only=True)
class SoftmaxProgram(ComputeProgram):
    op: str = "Softmax"
    dim: int
    stable: bool
    settings: Compute
    """What the kernels run with."""
    kept: DataType
    """Of the exponentials, between their sum and the division by it."""
    config: SoftmaxShardedMultiCoreProgramConfig | None

    def time(self, step: Step, figures: Figures) -> Cycles:
        """By the program's units: rows of tiles, columns of them, or tiles of a leading dimension behind each other."""
        x = step.inputs[0].spec
        back = len(x.shape) - self.dim
        matrices, rows, columns = tiles(x)
        if back == 1:
            length, units = columns, matrices * rows
        elif back == 2:
            length, units = rows, matrices * columns
        else:
            length = x.padded_shape[self.dim]
            units = x.num_pages // max(1, length)
        return softmax_cycles(step, figures, self.settings, units, length, self.factory.endswith("Large"))


class _Softmax(Operation):
    in_place = False

    def make_call(
        self,
        input_tensor: Tensor,
        dim: int,
        memory_config: Any,
        compute_kernel_config: Any,
        numeric_stable: bool,
        program: SoftmaxShardedMultiCoreProgramConfig | None = None,
    ) -> Call:
        compute = None if compute_kernel_config is None else Compute.of(compute_kernel_config)
        attributes = {"dim": dim, "memory_config": memory_config, "compute": compute, "stable": numeric_stable}
        return Call([input_tensor], program=program, **attributes)

    def plan(
        self,
        planner: Planner,
        x: Slot,
        dim: int,
        memory_config: MemoryConfig | None,
        compute: Compute | None,
        stable: bool,
        program: SoftmaxShardedMultiCoreProgramConfig | None,
    ) -> list[Slot]:
        rank = len(x.spec.shape)
        axis = dim + rank if dim < 0 else dim
        fatal(
            0 <= axis < rank,
            f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})",
        )
        if self.in_place:
            fatal(rank <= 4, "Tensor rank is greater than 4")
            # the tensor is seen with four dimensions here, the dimension as it was given
            fatal(axis == max(rank, 4) - 1, f"Invalid dimension: {axis}. Currently softmax inplace supports dim -1.")
        # rows are tilized where the dimension, counted with four, is the last of the tensor's own: 3 of 4, 1 of 3
        tilizes = not self.in_place and rank <= 4 and axis + 4 - rank == rank - 1
        fatal(tilizes or x.spec.layout is Layout.TILE, "Inputs to softmax must be tilized")
        fatal(
            x.spec.dtype in (_F32, _BF16, DataType.BFLOAT8_B),
            f"Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {x.spec.dtype.native}",
        )
        settings = compute or reduction_compute(planner.card.arch, approx=x.spec.dtype is not _F32)
        fatal(
            (axis == rank - 1 and rank <= 4) or x.spec.dtype is not _F32 or settings.fp32,
            "FP32 destination accumulation must be enabled when input tensor has FLOAT32 data type. Please update the "
            "compute kernel configuration.",
        )
        scope = Temporaries(planner)
        config = memory_config or x.spec.memory_config
        if x.spec.layout is Layout.ROW_MAJOR:
            x = scope.add(plan_tilize_with_padding(planner, x, tiled_shape(x.spec.shape), x.spec.memory_config))
        out = x if self.in_place else planner.allocate(x.spec.with_(memory_config=config))
        kept = _intermediate(x.spec.dtype, compute)
        if program is None:
            kind, cores, sizes = _program(planner, x.spec, out.spec, axis - rank, settings, kept, stable)
            factory, buffers = f"SoftmaxProgramFactory{kind}", staged(cores, sizes)
        else:
            factory, cores = "SoftmaxShardedProgramFactoryAttentionOptimized", x.spec.shard.grid
            _check_program(x.spec, program)
            buffers = _of_shards(planner, x, program, kept, stable)
        made = SoftmaxProgram(
            factory=factory,
            cores=cores,
            buffers=buffers,
            compute=compute,
            dim=axis,
            stable=stable,
            settings=settings,
            kept=kept,
            config=program,
        )
        planner.dispatch(made, [x], [out])
        if axis == rank - 1:
            _check_unpadding(out.spec)
        scope.leave(out)
        return [out]

    def numbers(self, context: Context, x: torch.Tensor, **_: Any) -> list[torch.Tensor]:
        value = context.logical(x)
        program = context.program(SoftmaxProgram)
        if context.engine.numerics == "native":
            return [context.store(value.softmax(program.dim))]
        result = softmax_rows(context, value.movedim(program.dim, -1), program)
        return [context.store(result.movedim(-1, program.dim))]


def _check_unpadding(out: Spec) -> None:
    """The library shows the program's result under the logical shape; shards that cut rows forbid that."""
    shape, padded = out.shape, out.padded_shape
    if not out.is_sharded or shape[-1] == padded[-1]:
        return
    whole = padded.to_rank(4) if len(padded) < 4 else padded
    fatal(
        out.shard.shape[1] == padded[-1],
        "Changing the last dimension of a sharded tensor is not supported unless the shard width matches the input "
        f"last dimension. Input shape: {whole}, New shape: {shape}, Shard width: {out.shard.shape[1]}",
    )


def softmax_rows(
    context: Context, x: torch.Tensor, program: SoftmaxProgram, dtype: DataType | None = None
) -> torch.Tensor:
    """Along the last dimension, as the kernel does: subtract the maximum, exponentials, their sum's reciprocal,
    product. Exponentials are stored in between."""
    engine, exact, dtype = context.engine, context.exact, dtype or context.inputs[0].dtype
    settings, fp32, kept = program.settings, program.settings.fp32, program.kept
    register = to_source(x, dtype)
    if program.stable:
        most = to_source(engine.pack(largest(x, dims=(-1,)), kept), kept)
        register = matrix_unit.sub(register, most, fp32_dest=fp32, exact=exact)
    unit = VectorUnit(fp32_dest=fp32, fp32_input=fp32, approx=settings.approx, exact=exact)
    exponentials = engine.pack(run_unary("exp", register, unit=unit), kept)
    total = sum_rows(engine, exponentials, kept, 1.0, settings)
    inverse = run_unary("reciprocal", total, unit=VectorUnit(fp32_dest=fp32, fp32_input=fp32, exact=exact))
    stored = _F32 if fp32 else _BF16
    factor = to_source(engine.pack(inverse, stored), stored)
    return matrix_unit.mul(to_source(exponentials, kept), factor, settings.fidelity, fp32_dest=fp32, exact=exact)


def _intermediate(dtype: DataType, compute: Compute | None) -> DataType:
    """Exponentials are kept in float32 only where the tensor is float32 or the user asked for such registers."""
    if compute is not None:
        return _F32 if compute.fp32 else _BF16
    return _F32 if dtype is _F32 else _BF16


# --- programs -------------------------------------------------------------------------------------------------------


def _program(
    planner: Planner, x: Spec, out: Spec, dim: int, settings: Compute, kept: DataType, stable: bool
) -> tuple[str, CoreRangeSet, dict[str, int]]:
    """The end of the factory's name, its cores, and the bytes of its buffers."""
    rank = len(x.shape)
    if dim == -1 and rank <= 4:
        return _rows(planner, x, out, settings, kept, stable)
    matrices, rows, columns = tiles(x)
    if dim >= -2:
        units, length = (matrices * rows, columns) if dim == -1 else (matrices * columns, rows)
        size, sizes = _lines(planner, x, out, settings, length)
        return f"General{'W' if dim == -1 else 'H'}{size}", cores_for_work(planner, units), sizes
    tile, out_tile = x.dtype.tile_bytes, out.dtype.tile_bytes
    register = (_F32 if settings.fp32 else x.dtype).tile_bytes
    units = x.num_pages // max(1, x.padded_shape[dim])
    sizes = {"input": 2 * tile, "output": 2 * out_tile, "exponentials": register, "reciprocal sums": register}
    sizes |= {"sums": 2 * register, "maxima": tile, "scratch": register}
    return "GeneralCLarge", cores_for_work(planner, units), sizes


def _lines(planner: Planner, x: Spec, out: Spec, settings: Compute, length: int) -> tuple[str, dict[str, int]]:
    """Rows or columns of tiles of the general programs: whole where they fit half a megabyte, else tile by tile."""
    tile, out_tile = x.dtype.tile_bytes, out.dtype.tile_bytes
    register = (_F32 if settings.fp32 else _BF16 if x.dtype.is_block_float else x.dtype).tile_bytes
    scaler = (_F32 if x.dtype is _F32 else _BF16).tile_bytes
    sizes = {"mask": scaler, "maximum scaler": scaler, "sum scaler": scaler, "sums": register, "maxima": register}
    sizes["scratch"] = register
    needed = 2 * length * (tile + register) + 2 * tile + 3 * register
    if planner.card.l1_base + needed <= _GENERAL_L1:
        sizes |= {"input": length * tile, "output": length * out_tile}
        return "Small", sizes | dict.fromkeys(("exponentials", "shifted"), length * register)
    sizes |= {"input": 2 * tile, "output": 2 * out_tile, "exponentials": 2 * register, "partial sums": register}
    return "Large", sizes


def _rows(
    planner: Planner, x: Spec, out: Spec, settings: Compute, kept_dtype: DataType, stable: bool
) -> tuple[str, CoreRangeSet, dict[str, int]]:
    """The program for attention: a row of tiles at a time, kept whole unless it is too long for L1."""
    matrices, rows, columns = tiles(x)
    register, kept = (_F32 if settings.fp32 else _BF16).tile_bytes, kept_dtype.tile_bytes
    scaler = (_F32 if x.dtype is _F32 else _BF16).tile_bytes
    block = _block(columns, 4 if settings.fp32 else 8)
    width = round_up(columns, block)
    padded = x.shape[-1] % 32 != 0
    whole = stable and not padded
    tile, out_tile = x.dtype.tile_bytes, out.dtype.tile_bytes
    held = width if whole else 2 * block
    separate = stable and padded
    total = held * tile + width * kept + 2 * block * out_tile + 5 * register + (width * kept if separate else 0)
    cores = num_cores_to_corerangeset(min(matrices * rows, planner.card.cores), CoreCoord(*planner.card.grid), True)
    mask = _BF16.tile_bytes
    if total > planner.card.l1_size * _L1_SHARE:
        sizes = {"input": _LONG * tile, "output": 2 * block * out_tile, "reciprocal sums": register, "sums": register}
        sizes |= {"partial maxima": kept, "partial sums": register, "scaler": scaler, "sums before": register}
        sizes |= {"exponentials": _LONG * kept, "mask": mask}
        sizes |= {"maxima": kept} if stable else {}
        sizes["shifted"] = _LONG * kept
    else:
        sizes = {"input": held * tile, "output": 2 * block * out_tile, "reciprocal sums": register, "scaler": scaler}
        sizes |= {"sums": register, "exponentials": width * kept, "mask": mask}
        sizes |= {"maxima": kept} if stable else {}
        sizes |= {"shifted": width * kept} if separate else {}
    return "AttentionOptimized", cores, sizes


def _block(columns: int, most: int) -> int:
    """Tiles at a time: fewer than the registers hold where that makes as many blocks without a rest, but never 5 or 7
    (measured)."""
    even = div_up(columns, max(1, div_up(columns, most))) or 1
    return even if columns % even == 0 and even not in (5, 7) else most


def _check_program(x: Spec, program: SoftmaxShardedMultiCoreProgramConfig) -> None:
    """A block is a shard, and the shards lie within the cores that the program names."""
    shape = x.shard.shape
    sides = (("block_h", program.block_h, "height", shape[0]), ("block_w", program.block_w, "width", shape[1]))
    for name, given, side, size in sides:
        fatal(
            given == size // TILE_SIZE,
            f"{name} ({given}) must match the shard {side} in tiles ({size // TILE_SIZE}). Shard shape is "
            f"[{shape[0]}, {shape[1]}] with tile {side} {TILE_SIZE}.",
        )
    box, grid = x.shard.grid.bounding_box().grid_size(), CoreCoord(program.compute_with_storage_grid_size)
    fatal(
        box.x <= grid.x and box.y <= grid.y,
        f"shard_spec.grid size {box.x}x{box.y} does not fit within program_config grid {grid.x}x{grid.y}",
    )


def _of_shards(
    planner: Planner, x: Slot, program: SoftmaxShardedMultiCoreProgramConfig, kept: DataType, stable: bool
) -> tuple[CircularBuffer, ...]:
    """Each core works on its own shard, a row of tiles after the other; the subblock's width changes no buffer."""
    cores, tile, one = x.spec.shard.grid, x.spec.dtype.tile_bytes, kept.tile_bytes
    row = program.block_w * one
    scaler = (_F32 if x.spec.dtype is _F32 else _BF16).tile_bytes
    sizes = {"scaler": scaler, "sums": one, "exponentials": row, "reciprocal sums": one}
    sizes |= {"maxima": one, "shifted": row} if stable else {}
    count = program.block_h * program.block_w
    shards = (borrowed(planner, n, tile, count, cores, x, n)._replace(name=n) for n in ("input", "output"))
    return (*shards, *staged(cores, sizes))


@op("softmax")
class Softmax(_Softmax):
    """Exponentials of a dimension, divided by their sum."""

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int = -1,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        numeric_stable: bool = True,
    ) -> Call:
        return self.make_call(input_tensor, dim, memory_config, compute_kernel_config, numeric_stable)


@op("softmax_in_place")
class SoftmaxInPlace(_Softmax):
    """The same, written over the input."""

    in_place = True

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int = -1,
        *,
        program_config: Any = None,
        compute_kernel_config: Any = None,
        numeric_stable: bool = True,
    ) -> Call:
        program = program_config if isinstance(program_config, SoftmaxShardedMultiCoreProgramConfig) else None
        if program_config is not None and program is None and type(program_config) is not SoftmaxDefaultProgramConfig:
            raise TypeError(f"program_config is {program_config!r}; ttnn.softmax_in_place() takes a softmax's own")
        fatal(
            program is None or input_tensor.spec.memory_config.shard_spec is not None,
            "output_mem_config must have a shard_spec when using SoftmaxShardedMultiCoreProgramConfig",
        )
        return self.make_call(input_tensor, dim, None, compute_kernel_config, numeric_stable, program)
