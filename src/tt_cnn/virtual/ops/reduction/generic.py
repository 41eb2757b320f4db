"""`sum`, `mean`, `max`, `min`, `var`, `std`: over the last dimensions as they are, over others by moving them there."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import torch

from tt_cnn.virtual.errors import fatal
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.steps import plan_fast_reduce, plan_reduce, plan_welford, tiles
from tt_cnn.virtual.ops.reduction.values import reduction_compute, sum_columns, sum_rows
from tt_cnn.virtual.ops.shape.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.permute import plan_permute
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.slicing import plan_slice
from tt_cnn.virtual.ops.shape.squeezing import plan_four_dims
from tt_cnn.virtual.ops.shape.stages import tilize_with_val_padding
from tt_cnn.virtual.ops.shape.transpose import plan_transpose
from tt_cnn.virtual.plan import Planner, Slot
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import TILE_SIZE, Shape, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_INFINITY = float("inf")


def reduced_dims(given: int | Sequence[int] | None, rank: int) -> tuple[int, ...]:
    """The dimensions as sorted numbers from the front; none given means all."""
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
    return tuple(sorted(dims))


def reduced_shape(shape: Shape, dims: Sequence[int], keepdim: bool) -> Shape:
    kept = [1 if i in dims else size for i, size in enumerate(shape) if keepdim or i not in dims]
    return Shape(kept)


class Reduction(Operation):
    """A reduction over some dimensions. Subclasses say what padding must hold, how steps are planned and computed."""

    fill: float = 0.0
    adds = False
    fast = False
    """Leading dimensions are reduced tile by tile (`FastReduceNC`)."""

    def make_call(self, input_tensor: Tensor, dim: Any, keepdim: bool, **options: Any) -> Call:
        config = options.get("compute_kernel_config")
        return Call(
            [input_tensor],
            dims=reduced_dims(dim, len(input_tensor.shape)),
            keepdim=keepdim,
            memory_config=options.get("memory_config"),
            compute=None if config is None else Compute.of(config),
            scalar=options.get("scalar", 1.0),
            correction=options.get("correction", True),
        )

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(
        self,
        planner: Planner,
        x: Slot,
        dims: tuple[int, ...],
        keepdim: bool,
        memory_config: MemoryConfig | None,
        **attributes: Any,
    ) -> list[Slot]:
        config = memory_config or x.spec.memory_config
        scope = Temporaries(planner)
        current = x
        row_major = x.spec.layout is Layout.ROW_MAJOR
        if row_major and not self.adds:
            current = scope.add(tilize_with_val_padding(planner, x, _tile_padded(x.spec.shape), x.spec.memory_config))
        if self.fills and not row_major:
            current = scope.add(plan_fill_padding(planner, current, self.fill))
        flat = plan_four_dims(planner, current) if len(x.spec.shape) < 4 else current
        offset = len(flat.spec.shape) - len(x.spec.shape)
        steps = Temporaries(planner)
        kept = self.between(x.spec.dtype, dims, len(x.spec.shape))
        reduced = self.plan_steps(planner, steps, flat, [d + offset for d in dims], config, kept, attributes)
        shape = reduced_shape(x.spec.shape, dims, keepdim)
        result = steps.replace(reduced, _plan_shape(planner, reduced, shape))
        steps.leave(result)
        scope.leave(result)
        return [result]

    @property
    def fills(self) -> bool:
        return True

    def plan_steps(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        dims: list[int],
        config: MemoryConfig,
        between: DataType,
        attributes: dict[str, Any],
    ) -> Slot:
        rank, dtype = len(x.spec.shape), x.spec.dtype
        leading = [d for d in dims if d < rank - 2]
        if self.fast and leading and attributes["scalar"] == 1.0:
            last = dtype if len(leading) == len(dims) else between
            x = self._plan_fast(planner, scope, x, leading, config, between, last)
            dims = [d for d in dims if d >= rank - 2]
            between = self.between(x.spec.dtype, dims, rank)
        if is_matrix(dims, rank) and is_one_tile(x.spec):
            return scope.replace(x, plan_reduce(planner, x, "HW", config, dtype, attributes))
        order = sorted(dims, reverse=True)
        for dim in order:
            moved = dim < rank - 2
            if moved:
                x = scope.replace(x, plan_transpose(planner, x, dim, rank - 2, config))
            along = "W" if dim == rank - 1 else "H"
            kept = dtype if dim == order[-1] else between
            x = scope.replace(x, plan_reduce(planner, x, along, config, kept, attributes))
            if moved:
                x = scope.replace(x, plan_transpose(planner, x, dim, rank - 2, config))
        return x

    def between(self, dtype: DataType, dims: Sequence[int], rank: int) -> DataType:
        """What a result has between two steps: sums of bfloat16 are kept in float32, unless all of three dimensions or
        more are reduced."""
        everything = len(dims) == rank > 2
        return DataType.FLOAT32 if self.adds and dtype is DataType.BFLOAT16 and not everything else dtype

    def _plan_fast(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        leading: list[int],
        config: MemoryConfig,
        between: DataType,
        last: DataType,
    ) -> Slot:
        logical = list(x.spec.shape)
        order = sorted(leading, reverse=True)
        for dim in order:
            kept = last if dim == order[-1] else between
            x = scope.replace(x, plan_fast_reduce(planner, x, dim, config, kept))
            logical[dim] = 1
        if list(x.spec.shape) != logical:
            rank = len(logical)
            x = scope.replace(x, plan_slice(planner, x, [0] * rank, logical, [1] * rank, config))
        return x

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(
        self, context: Context, x: torch.Tensor, dims: tuple[int, ...], keepdim: bool, **attributes: Any
    ) -> list[torch.Tensor]:
        value = self.reduce(context, context.logical(x), context.inputs[0], dims, attributes)
        return [context.store(_repacked(context, value).reshape(tuple(context.outputs[0].shape)))]

    def reduce(
        self, context: Context, x: torch.Tensor, spec: Spec, dims: tuple[int, ...], attributes: dict[str, Any]
    ) -> torch.Tensor:
        """One dimension after the other, from the last. One step has the whole scale: the first one of sums, the last
        one of a matrix and of extremes; a single tile is scaled afterwards."""
        rank, dtype = len(spec.shape), spec.dtype
        matrix = is_matrix(dims, rank)
        at_once = matrix and is_one_tile(spec)
        scale = attributes["scalar"] * self.scale(prod(spec.shape[d] for d in dims))
        order = sorted(dims, reverse=True)
        scaled = None if at_once else order[-1 if matrix or not self.adds else 0]
        for i, dim in enumerate(order):
            if i:
                dtype = DataType.FLOAT32 if at_once else self.between(spec.dtype, dims, rank)
                x = _stored(context, x, dtype)
            # of a matrix both dimensions are one call, which decides by the tensor that it was given
            whole = (spec.dtype if matrix else dtype) is DataType.FLOAT32
            step = _Step(dtype, dim == rank - 1, scale if dim == scaled else 1.0, whole, attributes["compute"])
            x = self.reduce_one(context, x.movedim(dim, -2) if dim < rank - 2 else x, step)
            if dim < rank - 2:
                x = x.movedim(-2, dim)
        return x * scale if at_once else x

    def scale(self, count: int) -> float:
        """What a result of so many values is multiplied with, beside the caller's scalar."""
        return 1.0

    def reduce_one(self, context: Context, x: torch.Tensor, step: _Step) -> torch.Tensor:
        raise NotImplementedError


class _Step(NamedTuple):
    """One dimension of a reduction: the last but one of the values, or the last."""

    dtype: DataType
    rows: bool
    scale: float
    whole: bool
    """The vector unit may take it, which holds float32 as it is."""
    compute: Compute | None


def is_matrix(dims: Sequence[int], rank: int) -> bool:
    """Whether the last two dimensions are reduced, and no other."""
    return len(dims) == 2 and set(dims) == {rank - 2, rank - 1}


def is_one_tile(spec: Spec) -> bool:
    """Both dimensions of a matrix are then one step; float32 takes two nevertheless."""
    return tiles(spec) == (1, 1, 1) and spec.dtype is not DataType.FLOAT32


def _plan_shape(planner: Planner, x: Slot, shape: Shape) -> Slot:
    if len(shape) == 0:
        return planner.view(x, Spec(shape, x.spec.dtype, x.spec.layout, x.spec.memory_config))
    return plan_reshape(planner, x, shape)


def _stored(context: Context, x: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """A result as a tile holds it: alone in its row or column of the tile, since the rest is zero."""
    if x.dim() and x.shape[-1] == 1:
        return context.engine.pack(torch.nn.functional.pad(x, (0, 15)), dtype)[..., :1]
    padding = -x.shape[-1] % TILE_SIZE if x.dim() else 0
    return context.engine.pack(torch.nn.functional.pad(x, (0, padding)), dtype)[..., : x.shape[-1]] if x.dim() else x


def _repacked(context: Context, x: torch.Tensor) -> torch.Tensor:
    """Results are packed where they were reduced, before any reshape packs them again."""
    dtype = context.outputs[0].dtype
    return _stored(context, x, dtype) if dtype.is_block_float else x


def _tile_padded(shape: Shape) -> Shape:
    dims = [1] * (2 - len(shape)) + list(shape)
    return Shape([*dims[:-2], round_up(dims[-2], TILE_SIZE), round_up(dims[-1], TILE_SIZE)])


class _Sum(Reduction):
    adds = True

    def reduce_one(self, context: Context, x: torch.Tensor, step: _Step) -> torch.Tensor:
        compute = step.compute or reduction_compute(context.arch)
        summed = sum_rows if step.rows else sum_columns
        return summed(context.engine, x, step.dtype, step.scale, compute, whole=step.whole and compute.fp32)


class _Extreme(Reduction):
    largest = True

    def reduce_one(self, context: Context, x: torch.Tensor, step: _Step) -> torch.Tensor:
        axis = -1 if step.rows else -2
        value = x.amax(axis, keepdim=True) if self.largest else x.amin(axis, keepdim=True)
        return value * step.scale if step.scale != 1.0 else value


class _Welford(Reduction):
    """Mean and variance in one pass in float32; the real kernel's own rounding is not reproduced."""

    root = False

    @property
    def fills(self) -> bool:
        return False

    def plan_steps(
        self,
        planner: Planner,
        scope: Temporaries,
        x: Slot,
        dims: list[int],
        config: MemoryConfig,
        between: DataType,
        attributes: dict[str, Any],
    ) -> Slot:
        rank = len(x.spec.shape)
        if set(dims) <= {rank - 1, rank - 2}:
            along_one = {rank - 1: "W", rank - 2: "H"}
            along = along_one[dims[0]] if len(dims) == 1 else "HW"
            return scope.replace(x, plan_welford(planner, x, along, config, attributes))
        if len(dims) == 2:
            order = [d for d in range(rank) if d not in dims] + dims
            x = scope.add(plan_permute(planner, x, order, config))
            # the library keeps what it moved until the call returns
            return scope.add(plan_welford(planner, x, "HW", config, attributes))
        for dim in sorted(dims, reverse=True):
            moved = dim < rank - 2
            if moved:
                x = scope.add(plan_transpose(planner, x, dim, rank - 2, config))
            along = "W" if dim == rank - 1 else "H"
            x = scope.add(plan_welford(planner, x, along, config, attributes))
            if moved:
                x = scope.replace(x, plan_transpose(planner, x, dim, rank - 2, config))
        return x

    def reduce(
        self, context: Context, x: torch.Tensor, spec: Spec, dims: tuple[int, ...], attributes: dict[str, Any]
    ) -> torch.Tensor:
        count = prod(x.shape[d] for d in dims)
        freedom = 1 if attributes["correction"] and count > 1 else 0
        value = x.var(dims, correction=freedom, keepdim=True) * attributes["scalar"]
        return value.sqrt() if self.root else value


class _Summing(_Sum):
    """Calls of sum, mean, max and min have the same form."""

    def arguments(
        self,
        input_tensor: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
        output_layout: Any = None,
    ) -> Call:
        return self.make_call(
            input_tensor,
            dim,
            keepdim,
            memory_config=memory_config,
            compute_kernel_config=compute_kernel_config,
            scalar=scalar,
        )


@op("sum")
class Sum(_Summing):
    fast = True


@op("mean")
class Mean(_Summing):
    def between(self, dtype: DataType, dims: Sequence[int], rank: int) -> DataType:
        return dtype if is_matrix(dims, rank) else super().between(dtype, dims, rank)

    def scale(self, count: int) -> float:
        return 1.0 / count


class _Choosing(_Extreme):
    def arguments(
        self,
        input_tensor: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool | None = None,
        sub_core_grids: Any = None,
        fast_and_approximate_mode: bool = False,
    ) -> Call:
        return self.make_call(
            input_tensor,
            dim,
            keepdim,
            memory_config=memory_config,
            compute_kernel_config=compute_kernel_config,
            scalar=scalar,
        )


@op("max")
class Max(_Choosing):
    fill = -_INFINITY


@op("min")
class Min(_Choosing):
    fill = _INFINITY
    largest = False


class _Spread(_Welford):
    def arguments(
        self,
        input_tensor: Tensor,
        dim: Any = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool = True,
        sub_core_grids: Any = None,
    ) -> Call:
        return self.make_call(
            input_tensor,
            dim,
            keepdim,
            memory_config=memory_config,
            compute_kernel_config=compute_kernel_config,
            scalar=scalar,
            correction=correction,
        )


@op("var")
class Var(_Spread):
    pass


@op("std")
class Std(_Spread):
    root = True
