# SPDX-License-Identifier: Apache-2.0
"""Reductions over some dimensions: the last ones as they are, others by moving them there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.vector_unit.order import largest, smallest
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.layout.tilize_with_val_padding import plan_tilize_with_padding, tiled_shape
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation
from tt_cnn.virtual.ops.reduction.checks import check_distinct, check_dtype, check_not_empty
from tt_cnn.virtual.ops.reduction.reduce_program import ReduceProgram, height_slices, negated_bytes
from tt_cnn.virtual.ops.reduction.steps import (
    FastReduceProgram,
    Options,
    plan_fast_reduce,
    plan_reduce,
    plan_tall_reduce,
)
from tt_cnn.virtual.ops.reduction.values import reduction_compute, sum_columns, sum_rows, sum_slices
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_transpose
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_four_dims
from tt_cnn.virtual.ops.shape.slice.slice import plan_slice
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_FAST = (DataType.BFLOAT16, DataType.BFLOAT8_B)


def reduced_dims(given: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The dimensions as sorted numbers from the front; none given means all."""
    if rank == 0 and given in (None, 0, -1):
        return ()
    dims = list(range(rank)) if given is None else [given] if isinstance(given, int) else list(given)
    if not dims:
        dims = list(range(rank))
    for i, dim in enumerate(dims):
        adjusted = dim + rank if dim < 0 else dim
        fatal(
            0 <= adjusted < rank or (rank == 0 and adjusted == 0),
            f"Unsupported dim {adjusted} at index {i}. After possible adjustment, needs to be at least 0 and less than "
            f"rank {rank}, or exactly 0 for a rank 0 tensor.",
        )
        dims[i] = adjusted
    dims.sort()
    check_distinct(dims)
    return tuple(dims)


def reduced_shape(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    kept = [1 if i in dims else size for i, size in enumerate(shape) if keepdim or i not in dims]
    return Shape(kept)


class Reduction(Operation):
    """A reduction over some dimensions. Subclasses say what padding must hold, how steps are planned and computed."""

    fill: float = 0.0
    adds = False
    averages = False
    """Over whole matrices the library's own mean is called, which keeps the tensor's dtype between its steps."""
    fast = False
    """Leading dimensions are reduced tile by tile (`FastReduceNC`)."""
    negates = False

    def make_call(self, input_tensor: Tensor, dim: Any, keepdim: bool, **options: Any) -> Call:
        config = options.get("compute_kernel_config")
        return Call(
            [input_tensor],
            dims=reduced_dims(dim, len(input_tensor.shape)),
            keepdim=keepdim,
            memory_config=options.get("memory_config"),
            compute=None if config is None else Compute.of(config),
            scalar=options["scalar"],
            cores=options["sub_core_grids"],
            fast=options["fast_and_approximate_mode"],
            layout=options.get("output_layout"),
        )

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(
        self,
        planner: Planner,
        x: Slot,
        dims: tuple[int, ...],
        keepdim: bool,
        memory_config: MemoryConfig | None,
        layout: Layout | None,
        compute: Compute | None,
        scalar: float,
        cores: CoreRangeSet | None,
        fast: bool,
    ) -> list[Slot]:
        options = Options(self.name, compute, scalar, cores, fast, layout)
        check_dtype(x.spec, self.averages)
        if not self.adds:
            check_not_empty(x.spec.shape, dims)
        config = memory_config or x.spec.memory_config
        scope = Temporaries(planner)
        current = x
        if x.spec.layout is Layout.TILE:
            current = scope.add(plan_fill_padding(planner, current, self.fill))
        flat = plan_four_dims(planner, current) if len(x.spec.shape) < 4 else current
        offset = len(flat.spec.shape) - len(x.spec.shape)
        between = self.between(x.spec, dims)
        reduced = self.plan_steps(planner, scope, flat, [d + offset for d in dims], config, between, options)
        shape = reduced_shape(x.spec.shape, dims, keepdim)
        result = scope.replace(reduced, plan_shape(planner, reduced, shape))
        if layout is not None and layout is not result.spec.layout:
            result = scope.add(plan_to_layout(planner, result, layout, None, None))
        scope.leave(result)
        return [result]

    def plan_steps(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        dims: list[int],
        config: MemoryConfig,
        between: DataType,
        options: Options,
    ) -> Slot:
        rank, dtype = len(x.spec.shape), x.spec.dtype
        leading = [d for d in dims if d < rank - 2]
        if leading and self.fast and dtype in _FAST and options.scalar == 1.0:
            last = len(leading) == len(dims)
            x = self._plan_fast(planner, scope, x, leading, config, between, last, options.cores)
            dims = [d for d in dims if d >= rank - 2]
        if dims == [rank - 2, rank - 1]:
            return self._plan_matrix(planner, scope, x, config, dtype, options)
        given = x
        order = sorted(dims, reverse=True)
        for dim in order:
            moved = dim < rank - 2
            if moved:
                x = _after(scope, x, given, plan_transpose(planner, x, dim, rank - 2, config))
            last = dim == order[-1]
            kept = dtype if last else between
            to_tiles = last and dim == rank - 1 and options.layout is Layout.TILE
            source = x if self.adds and not to_tiles else tiled(planner, scope, x, x.spec.memory_config)
            if dim == rank - 1:
                reduced = self._plan_reduce(planner, source, "W", config, kept, options)
            else:
                layout = options.layout if last and not moved else None
                reduced = self._plan_height(planner, source, config, kept, options, layout)
            if source is not x:
                scope.replace(source, reduced)
            x = _after(scope, x, given, reduced)
            if moved:
                x = _after(scope, x, given, plan_transpose(planner, x, dim, rank - 2, config))
        return x

    def _plan_matrix(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        config: MemoryConfig,
        dtype: DataType,
        options: Options,
    ) -> Slot:
        """Both last dimensions: rows, then columns; at once where the tensor has no more elements than a tile, unless
        the vector unit reduces, which cannot do that. The library's function keeps what it makes until it returns.
        """
        fp32 = options.settings(planner).fp32
        source = tiled(planner, scope, x, x.spec.memory_config)
        if self.at_once(x.spec, fp32, options.fast):
            result = self._plan_reduce(planner, source, "HW", config, dtype, options)
        else:
            kept = self.rows_of_a_matrix(x.spec.dtype, fp32)
            rows = scope.add(self._plan_reduce(planner, source, "W", config, kept, options))
            result = scope.replace(rows, self._plan_reduce(planner, rows, "H", config, dtype, options))
        return scope.replace(source, result) if source is not x else scope.add(result)

    def _negated(self, dtype: DataType, fp32: bool) -> bool:
        """The kernel negates to find the smallest where the vector unit cannot compare the dtype."""
        return self.negates and (dtype.is_block_float or (dtype is DataType.FLOAT32 and not fp32))

    def _plan_height(
        self,
        planner: Planner,
        x: Slot,
        config: MemoryConfig,
        dtype: DataType,
        options: Options,
        layout: Layout | None,
    ) -> Slot:
        """Two steps where the height is better cut into slices; the kernels that negate cannot do that, nor those that
        compare block floats. What reads rows also writes the layout that was asked for."""
        comparable = self.adds or not (
            x.spec.dtype.is_block_float or self._negated(x.spec.dtype, options.settings(planner).fp32)
        )
        slices = height_slices(planner, x.spec, config, options.cores) if comparable else 1
        if slices > 1:
            return plan_tall_reduce(planner, x, config, dtype, options, slices, self.adds, layout)
        if layout is not None and x.spec.layout is Layout.ROW_MAJOR:
            return plan_reduce(planner, x, "H", config, dtype, options, layout=layout)
        return self._plan_reduce(planner, x, "H", config, dtype, options)

    def _plan_reduce(
        self, planner: Planner, x: Slot, along: str, config: MemoryConfig, dtype: DataType, options: Options
    ) -> Slot:
        """One step; with two more that negate, where the kernel's buffers for that do not fit."""
        fp32 = options.settings(planner).fp32
        negated = self._negated(x.spec.dtype, fp32)
        if not negated or along != "H" or 2 * negated_bytes(planner, x.spec, options.cores) <= planner.program_l1():
            return plan_reduce(planner, x, along, config, dtype, options, negated)
        flipped = plan_unary(planner, x, Kernel("neg"), dtype=x.spec.dtype, memory_config=config)
        reduced = plan_reduce(planner, flipped, along, config, dtype, options)
        result = plan_unary(planner, reduced, Kernel("neg"), dtype=dtype, memory_config=config)
        planner.free(reduced)
        planner.free(flipped)
        return result

    def at_once(self, spec: Spec, fp32: bool, fast: bool) -> bool:
        """Whether both dimensions of a matrix are one step. `fast` has the matrix unit reduce float32 too."""
        on_vector_unit = (spec.dtype is DataType.FLOAT32 and fp32 and not fast) or (
            self.negates and not self._negated(spec.dtype, fp32)
        )
        return prod(spec.physical) // TILE_SIZE**2 <= 1 and not on_vector_unit

    def rows_of_a_matrix(self, dtype: DataType, fp32: bool) -> DataType:
        """What rows have before columns are reduced in the same call."""
        wide = self.adds and not self.averages and fp32 and dtype is DataType.BFLOAT16
        return DataType.FLOAT32 if wide else dtype

    def between(self, spec: Spec, dims: Sequence[int]) -> DataType:
        """What a result has between two dimensions: sums of bfloat16 are float32, unless everything is summed."""
        chained = self.adds and spec.dtype is DataType.BFLOAT16 and 1 < len(dims) < len(spec.shape)
        return DataType.FLOAT32 if chained else spec.dtype

    def _plan_fast(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        leading: list[int],
        config: MemoryConfig,
        between: DataType,
        last: bool,
        cores: CoreRangeSet | None,
    ) -> Slot:
        """What was given, and its tiled form, stay until the result is there."""
        logical, dtype = list(x.spec.shape), x.spec.dtype
        current = source = tiled(planner, scope, x, config)
        order = sorted(leading, reverse=True)
        for dim in order:
            kept = dtype if last and dim == order[-1] else between
            current = _after(scope, current, source, plan_fast_reduce(planner, current, dim, config, kept, cores))
            logical[dim] = 1
        if list(current.spec.shape) != logical:
            rank = len(logical)
            current = scope.replace(current, plan_slice(planner, current, [0] * rank, logical, [1] * rank, config))
        scope.replace(source, current)
        return scope.replace(x, current)

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(
        self, context: Context, x: torch.Tensor, dims: tuple[int, ...], **attributes: Any
    ) -> list[torch.Tensor]:
        if 0 in context.inputs[0].shape:  # the sum of nothing, and its mean
            number = as_stored(float("nan") if self.averages else 0.0, context.outputs[0].dtype)
            return [context.store(x.new_full(tuple(context.outputs[0].shape), number))]
        if not dims:
            return [context.store(context.logical(x) * attributes["scalar"])]
        if not context.inputs[0].dtype.is_float:
            whole = self.reduce_integers(context.logical(x).to(torch.int64), dims) * attributes["scalar"]
            return [context.store(whole.reshape(tuple(context.outputs[0].shape)))]
        value = self.reduce(context, context.logical(x), context.inputs[0], dims, attributes)
        return [context.store(repacked(context, value).reshape(tuple(context.outputs[0].shape)))]

    def reduce(
        self, context: Context, x: torch.Tensor, spec: Spec, dims: tuple[int, ...], attributes: dict[str, Any]
    ) -> torch.Tensor:
        """One dimension after the other, from the last. One step has the whole scale: the first one of sums, the last
        one of a matrix and of extremes; a single tile is scaled afterwards."""
        rank, dtype = len(spec.shape), spec.dtype
        compute = attributes["compute"] or reduction_compute(context.arch)
        matrix = len(dims) == 2 and set(dims) == {rank - 2, rank - 1}
        fast = attributes["fast"]
        programs = (step.program for step in context.steps)
        at_once = matrix and any(isinstance(one, ReduceProgram) and one.along == "HW" for one in programs)
        scale = attributes["scalar"] * self.scale(prod(spec.shape[d] for d in dims))
        order = sorted(dims, reverse=True)
        scaled = None if at_once else order[-1 if matrix or not self.adds else 0]
        kept = self.rows_of_a_matrix(dtype, compute.fp32) if matrix else self.between(spec, dims)
        slices = _slices(context, rank, order)
        for i, dim in enumerate(order):
            if i:
                dtype = DataType.FLOAT32 if at_once else kept
                x = _stored(context, x, dtype)
            # of a matrix both dimensions are one call, which decides by the tensor that it was given
            whole = compute.fp32 and (spec.dtype if matrix else dtype) is DataType.FLOAT32 and not fast
            step = Dimension(dtype, dim == rank - 1, scale if dim == scaled else 1.0, whole, compute, slices[dim])
            x = self.reduce_one(context, x.movedim(dim, -2) if dim < rank - 2 else x, step)
            if dim < rank - 2:
                x = x.movedim(-2, dim)
        return x * scale if at_once else x

    def scale(self, count: int) -> float:
        """What a result of so many values is multiplied with, beside the caller's scalar."""
        return 1.0

    def reduce_one(self, context: Context, x: torch.Tensor, step: Dimension) -> torch.Tensor:
        raise NotImplementedError

    def reduce_integers(self, x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        raise NotImplementedError


class Dimension(NamedTuple):
    """One dimension of a reduction: the last but one of the values, or the last."""

    dtype: DataType
    rows: bool
    scale: float
    whole: bool
    """The vector unit takes it, which holds float32 as it is."""
    compute: Compute
    slices: int = 1
    """Of the height, each reduced on its own before they are reduced together."""


def _slices(context: Context, rank: int, order: Sequence[int]) -> dict[int, int]:
    """In how many slices each dimension was reduced. Leading dimensions of fast sums have no `Reduce` step."""
    programs = [step.program for step in context.steps]
    columns = [one.slices for one in programs if isinstance(one, ReduceProgram) and one.along == "H"]
    firsts = [n for i, n in enumerate(columns) if not i or columns[i - 1] == 1]  # what follows slices reduces those
    fast = any(isinstance(one, FastReduceProgram) for one in programs)
    found = dict.fromkeys(order, 1)
    reduced = [dim for dim in order if dim != rank - 1 and not (fast and dim < rank - 2)]
    return found | dict(zip(reduced, firsts, strict=False))


def tiled(planner: Planner, scope: Temporaries, x: Slot, config: MemoryConfig) -> Slot:
    if x.spec.layout is Layout.TILE:
        return x
    return scope.add(plan_tilize_with_padding(planner, x, tiled_shape(x.spec.shape), config))


def _after(scope: Temporaries, x: Slot, given: Slot, result: Slot) -> Slot:
    """A loop's variable is given the next tensor; what the loop started from stays until the call returns."""
    return scope.add(result) if x.buffer == given.buffer else scope.replace(x, result)


def plan_shape(planner: Planner, x: Slot, shape: Shape) -> Slot:
    if len(shape) == 0:
        return planner.view(x, Spec(shape, x.spec.dtype, x.spec.layout, x.spec.memory_config))
    return plan_reshape(planner, x, shape)


def _stored(context: Context, x: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """A result as a tile holds it: alone in its row or column of the tile, since the rest is zero."""
    if x.dim() and x.shape[-1] == 1:
        return context.engine.pack(torch.nn.functional.pad(x, (0, 15)), dtype)[..., :1]
    padding = -x.shape[-1] % TILE_SIZE if x.dim() else 0
    return context.engine.pack(torch.nn.functional.pad(x, (0, padding)), dtype)[..., : x.shape[-1]] if x.dim() else x


def repacked(context: Context, x: torch.Tensor) -> torch.Tensor:
    """Results are packed where they were reduced, before any reshape packs them again."""
    dtype = context.outputs[0].dtype
    return _stored(context, x, dtype) if dtype.is_block_float else x


class Adding(Reduction):
    adds = True

    def reduce_one(self, context: Context, x: torch.Tensor, step: Dimension) -> torch.Tensor:
        if step.rows:
            return sum_rows(context.engine, x, step.dtype, step.scale, step.compute, whole=step.whole)
        if step.slices > 1:
            return sum_slices(context.engine, x, step.dtype, step.scale, step.compute, step.slices, whole=step.whole)
        return sum_columns(context.engine, x, step.dtype, step.scale, step.compute, whole=step.whole)

    def reduce_integers(self, x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        return x.sum(dims)


class Choosing(Reduction):
    largest = True

    def reduce_one(self, context: Context, x: torch.Tensor, step: Dimension) -> torch.Tensor:
        dims = (-1 if step.rows else -2,)
        if context.engine.numerics == "native":
            value = x.amax(dims, keepdim=True) if self.largest else x.amin(dims, keepdim=True)
        else:
            value = (largest if self.largest else smallest)(x, dims=dims)
        return value * step.scale if step.scale != 1.0 else value

    def reduce_integers(self, x: torch.Tensor, dims: tuple[int, ...]) -> torch.Tensor:
        return x.amax(dims) if self.largest else x.amin(dims)
