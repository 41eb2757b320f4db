# SPDX-License-Identifier: Apache-2.0
"""`cumsum` and `prod`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import warn_unwritten
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.time import streamed_cycles
from tt_cnn.virtual.ops.layout.clone import plan_clone
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.generic import reduced_shape, tiled
from tt_cnn.virtual.ops.reduction.time import FoldingProgram
from tt_cnn.virtual.ops.reduction.units import cores_for_work, staged, tiles
from tt_cnn.virtual.ops.shape.pad.fill_padding import plan_fill_padding
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_permute
from tt_cnn.virtual.ops.shape.reshape.reshape import plan_reshape
from tt_cnn.virtual.ops.shape.reshape.squeezing import plan_four_dims
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape, div_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_SUM_INSTRUCTIONS, _COMPENSATION_INSTRUCTIONS = 3, 5
"""For 32 elements: an element loaded, added and stored; and, as Kahan does it, three differences that find what the sum
lost, with a load and a store of that."""


@dataclass(frozen=True, kw_only=True)
class AccumulationProgram(Program):
    op: str = "Accumulation"
    factory: str = "AccumulationProgramFactory"
    dim: int
    reverse: bool
    compensated: bool
    """As the caller wishes."""
    keeps_loss: bool
    """What rounding lost is kept beside the sum: of float32, along a leading dimension."""

    def time(self, step: Step, figures: Figures) -> Cycles:
        """One pass over the tiles; the vector unit adds row after row, or tile after tile."""
        instructions = _SUM_INSTRUCTIONS + (_COMPENSATION_INSTRUCTIONS if self.keeps_loss else 0)
        return streamed_cycles(step, figures, figures.vector_rows * instructions)


@dataclass(frozen=True, kw_only=True)
class ProdProgram(FoldingProgram):
    """Tile after tile is multiplied with the product so far, which is packed every time."""

    dim: int | None

    def a_tile(self, figures: Figures) -> float:
        return figures.elementwise_cycles


@op("cumsum")
class CumSum(Operation):
    """Running sums along a dimension, in float32, rounded to the result's dtype."""

    host_order = True

    def arguments(
        self,
        input: Tensor,
        dim: int,
        *,
        dtype: Any = None,
        reverse_order: bool = False,
        out: Tensor | None = None,
        memory_config: Any = None,
        disable_compensated_sum: bool = False,
    ) -> Call:
        if out is not None:
            fatal(
                input.shape == out.shape,
                f"Shape mismatch: input tensor shape {input.shape} does not match output tensor shape {out.shape}.",
            )
            warn_unwritten(self.name, "out", "always")
        return Call(
            [input],
            dim=dim,
            dtype=dtype,
            reverse=reverse_order,
            memory_config=memory_config,
            compensated=not disable_compensated_sum,
        )

    def plan(
        self,
        planner: Planner,
        x: Slot,
        dim: int,
        dtype: DataType | None,
        reverse: bool,
        memory_config: MemoryConfig | None,
        compensated: bool,
    ) -> list[Slot]:
        spec = x.spec
        rank = len(spec.shape)
        if _is_copied(spec):
            return [plan_clone(planner, x, None, memory_config)]
        fatal(
            -rank <= dim < rank,
            f"The requested accumulation axis is {dim}, while the input tensor has rank {rank}.",
        )
        config, target = memory_config or spec.memory_config, dtype or spec.dtype
        scope = Temporaries(planner)
        flat = scope.add(plan_four_dims(planner, x))
        dims = len(flat.spec.shape)
        axis = dim % rank + dims - rank
        if axis == 0 or (axis >= dims - 2 and spec.dtype is DataType.BFLOAT16):
            result = scope.add(self._accumulate(planner, flat, axis, target, config, (reverse, compensated)))
        else:
            order = list(range(dims))
            order[0], order[axis] = axis, 0
            moved = scope.add(plan_permute(planner, flat, order, spec.memory_config))
            total = scope.replace(moved, self._accumulate(planner, moved, 0, target, config, (reverse, compensated)))
            result = scope.replace(total, plan_permute(planner, total, order, config))
        result = scope.replace(result, plan_reshape(planner, result, spec.shape))
        scope.leave(result)
        return [result]

    def _accumulate(
        self,
        planner: Planner,
        x: Slot,
        axis: int,
        dtype: DataType,
        config: MemoryConfig,
        way: tuple[bool, bool],
    ) -> Slot:
        """Along rows and columns only bfloat16; along the first dimension a sum is kept in float32, for float32 with
        what rounding lost, if it is to be compensated. `way`: from the end, compensated."""
        spec = x.spec
        rank = len(spec.shape)
        fatal(
            not spec.is_sharded,
            "ttnn accumulation operations (cumprod, cumsum) do not support sharded input tensors.",
        )
        fatal(
            spec.layout is Layout.TILE,
            f"The provided input tensor has a non-tile layout: {spec.layout.name}.",
        )
        out = planner.allocate(Spec(spec.shape, dtype, Layout.TILE, config))
        matrices, rows, columns = tiles(spec)
        units = {rank - 1: matrices * rows, rank - 2: matrices * columns}.get(
            axis, spec.num_pages // max(1, spec.padded_shape[axis])
        )
        cores = cores_for_work(planner, units)
        leading = axis < rank - 2
        reverse, compensated = way
        keeps_loss = leading and spec.dtype is DataType.FLOAT32 and compensated
        sizes = {"input": 4 * spec.dtype.tile_bytes, "output": 4 * dtype.tile_bytes}
        sizes |= {"sum": DataType.FLOAT32.tile_bytes} if leading else {}
        sizes |= {"lost": DataType.FLOAT32.tile_bytes} if keeps_loss else {}
        program = AccumulationProgram(
            cores=cores,
            buffers=staged(cores, sizes),
            dim=axis,
            reverse=reverse,
            compensated=compensated,
            keeps_loss=keeps_loss,
        )
        planner.dispatch(program, [x], [out])
        return out

    def numbers(self, context: Context, x: torch.Tensor, dim: int, reverse: bool, **_: Any) -> list[torch.Tensor]:
        value = context.logical(x)
        if _is_copied(context.inputs[0]):
            return [context.store(value)]
        total = value.flip(dim).cumsum(dim).flip(dim) if reverse else value.cumsum(dim)
        return [context.store(total.to(CARRIER[context.outputs[0].dtype]))]


def _is_copied(spec: Spec) -> bool:
    """There is nothing to add up: TT-NN clones the tensor, whatever dimension and dtype were asked for."""
    return spec.shape.rank == 0 or spec.shape.volume() == 0


_WAYS_BACK = {2: [[1, 2, 0, 3]], 3: [[1, 2, 0, 3], [0, 1, 3, 2]]}
"""Permutations after a product over rows or columns, which were moved to the front."""


@op("prod")
class Prod(Operation):
    """The product of a dimension's elements, or of all."""

    host_order = True

    def arguments(
        self, input_tensor: Tensor, dim: int | None = None, keepdim: bool = False, *, memory_config: Any = None
    ) -> Call:
        return Call([input_tensor], dim=None if dim is None else int(dim), keepdim=keepdim, memory_config=memory_config)

    def plan(
        self, planner: Planner, x: Slot, dim: int | None, keepdim: bool, memory_config: MemoryConfig | None
    ) -> list[Slot]:
        spec = x.spec
        rank = len(spec.shape)
        config = memory_config or spec.memory_config
        fatal(
            dim is None or -rank <= dim < rank,
            f"Dimension for prod out of range (expected to be in range of [{-rank}, {rank - 1}])",
        )
        scope = Temporaries(planner)
        current = x
        if spec.layout is Layout.TILE:
            current = scope.add(plan_fill_padding(planner, x, 1.0))
        if dim is None:
            current = tiled(planner, scope, current, spec.memory_config)
            fatal(
                not spec.is_sharded,
                f"Memory layout must be INTERLEAVED, got: {spec.memory_config.memory_layout.native}",
            )
            shape = Shape((1,) * rank if keepdim else ())
            out = self._multiply(planner, current, Spec(shape, spec.dtype, Layout.TILE, config), "ProdAll", None)
            scope.leave(out)
            return [out]
        axis = dim % rank + max(0, 4 - rank)
        current = plan_four_dims(planner, current)
        if axis > 1:
            order = [axis] + [i for i in range(4) if i != axis]
            current = scope.add(plan_permute(planner, current, order, config))
        current = tiled(planner, scope, current, spec.memory_config)
        shape = reduced_shape(current.spec.shape, (axis if axis < 2 else 0,), True)
        out = self._multiply(planner, current, Spec(shape, spec.dtype, Layout.TILE, config), "ProdNc", dim)
        scope.add(out)
        for order in _WAYS_BACK.get(axis, []):
            out = scope.replace(out, plan_permute(planner, out, order, config))
        out = scope.replace(out, plan_reshape(planner, out, reduced_shape(spec.shape, (dim % rank,), keepdim)))
        scope.leave(out)
        return [out]

    @staticmethod
    def _multiply(planner: Planner, x: Slot, result: Spec, name: str, dim: int | None) -> Slot:
        out = planner.allocate(result)
        cores = cores_for_work(planner, 1 if dim is None else result.num_pages)
        results = 1 if dim is None else result.num_pages
        program = ProdProgram(
            op=name,
            factory=f"{name}ProgramFactory",
            cores=cores,
            buffers=staged(cores, dict.fromkeys(("input", "output"), 2 * x.spec.dtype.tile_bytes)),
            dim=dim,
            results_per_core=div_up(results, max(1, cores.num_cores())),
            tiles_per_result=x.spec.num_pages // max(1, results),
        )
        planner.dispatch(program, [x], [out])
        return out

    def numbers(
        self, context: Context, x: torch.Tensor, dim: int | None, keepdim: bool, **_: Any
    ) -> list[torch.Tensor]:
        value = context.logical(x)
        value = value.contiguous()  # in the same order however it lies in memory
        total = value.prod() if dim is None else value.prod(dim, keepdim=keepdim)
        return [context.store(total.reshape(tuple(context.outputs[0].shape)))]
