# SPDX-License-Identifier: Apache-2.0
"""`var` and `std`: one pass over rows, columns or matrices; other dimensions are permuted to the end before."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tt_cnn.virtual.devices.device import device_of
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.creation import filled
from tt_cnn.virtual.ops.matmul.problem import Compute
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Context, Operation, op
from tt_cnn.virtual.ops.reduction.generic import plan_shape, reduced_dims, reduced_shape, repacked, tiled
from tt_cnn.virtual.ops.reduction.steps import Options, plan_welford
from tt_cnn.virtual.ops.shape.programs import Temporaries
from tt_cnn.virtual.ops.shape.reordering import plan_permute
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.conversion import as_stored
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig

_DTYPES = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B)


class _Spread(Operation):
    """Mean and variance in one pass in float32; the real kernel's own rounding is not reproduced."""

    root = False
    host_order = True

    def arguments(
        self,
        input_tensor: Tensor,
        dim: int | Sequence[int] | None = None,
        keepdim: bool = False,
        *,
        memory_config: Any = None,
        compute_kernel_config: Any = None,
        scalar: float = 1.0,
        correction: bool = True,
        sub_core_grids: CoreRangeSet | None = None,
    ) -> Call:
        return Call(
            [input_tensor],
            dims=reduced_dims(dim, len(input_tensor.shape)),
            keepdim=keepdim,
            memory_config=memory_config,
            compute=None if compute_kernel_config is None else Compute.of(compute_kernel_config),
            scalar=scalar,
            correction=correction,
            cores=sub_core_grids,
        )

    def shortcut(self, call: Call) -> Tensor | None:
        """One element has no spread: a constant, written from the host."""
        x, a = call.tensors[0], call.attributes
        if not isinstance(x, Tensor) or x.device() is None or prod(x.shape[d] for d in a["dims"]) != 1:
            return None
        value = float("nan") if a["correction"] else 0.0
        constant = filled(
            x.shape, value, x.dtype, Layout.TILE, device_of(x, self.name), a["memory_config"] or x.memory_config()
        )
        return OPERATIONS["reshape"](constant, reduced_shape(x.shape, a["dims"], a["keepdim"]))

    def plan(
        self,
        planner: Planner,
        x: Slot,
        dims: tuple[int, ...],
        keepdim: bool,
        memory_config: MemoryConfig | None,
        compute: Compute | None,
        scalar: float,
        correction: bool,
        cores: CoreRangeSet | None,
    ) -> list[Slot]:
        fatal(
            x.spec.dtype in _DTYPES or 0 in x.spec.shape,
            f"Only FLOAT32, BFLOAT16, and BFLOAT8_B are supported for Std/Var reduction - got {x.spec.dtype.native}",
        )
        config = memory_config or x.spec.memory_config
        scope, rank = Temporaries(planner), len(x.spec.shape)
        shape = reduced_shape(x.spec.shape, dims, keepdim)
        along, order = _order(dims, rank)
        moved = x if order is None else scope.add(plan_permute(planner, x, order, config))
        source = scope.replace(moved, tiled(planner, scope, moved, config))
        _check_registers(source, compute)
        extra = max(0, len(dims) - 2)
        options = Options(self.name, compute, scalar, cores)
        result = scope.add(plan_welford(planner, source, along, config, options, correction, extra))
        if along == "H" and order is not None:
            result = scope.replace(result, plan_permute(planner, result, order, config))
        result = scope.replace(result, plan_shape(planner, result, shape))
        scope.leave(result)
        return [result]

    def numbers(
        self, context: Context, x: torch.Tensor, dims: tuple[int, ...], **attributes: Any
    ) -> list[torch.Tensor]:
        if 0 in context.inputs[0].shape:
            out = context.outputs[0]
            nothing = as_stored(float("nan"), out.dtype)
            return [context.store(x.new_full(tuple(out.shape), nothing))]
        x = context.logical(x)
        freedom = 1 if attributes["correction"] else 0
        value = x.var(dims, correction=freedom, keepdim=True) * attributes["scalar"]
        value = value.sqrt() if self.root else value
        return [context.store(repacked(context, value).reshape(tuple(context.outputs[0].shape)))]


def _order(dims: tuple[int, ...], rank: int) -> tuple[str, list[int] | None]:
    """What the pass runs along, and how dimensions are permuted before: one other is swapped with the rows, several
    go to the end."""
    if len(dims) > 1:
        return "HW", [d for d in range(rank) if d not in dims] + list(dims)
    if dims[0] >= rank - 2:
        return ("W" if dims[0] == rank - 1 else "H"), None
    order = list(range(rank))
    order[dims[0]], order[rank - 2] = rank - 2, dims[0]
    return "H", order


def _check_registers(x: Slot, compute: Compute | None) -> None:
    fatal(
        x.spec.dtype is not DataType.FLOAT32 or compute is None or compute.fp32,
        "ttnn.std/var with Float32 input requires fp32_dest_acc_en=true in the compute kernel config; otherwise "
        "precision is silently lost in the unpacker format conversion.",
    )


@op("var")
class Var(_Spread):
    pass


@op("std")
class Std(_Spread):
    root = True
