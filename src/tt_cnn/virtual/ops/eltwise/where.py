# SPDX-License-Identifier: Apache-2.0
"""where: one of two values by a predicate; a unary, binary or ternary program by how many of them are tensors."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.binary_numbers import scalar_operand
from tt_cnn.virtual.ops.eltwise.binary_plan import plan_binary
from tt_cnn.virtual.ops.eltwise.calls import (
    PLACEMENT,
    is_number,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.eltwise.kinds import FLOATS, I32, WIDE, Kind, check_scalar
from tt_cnn.virtual.ops.eltwise.numbers import as_integer, operand_in
from tt_cnn.virtual.ops.eltwise.sharding import scaled_memory_config
from tt_cnn.virtual.ops.eltwise.ternary_plan import plan_ternary
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_SCALAR_FALSE = Kind("WHERE_TTS", "where", FLOATS | WIDE)
_SCALAR_TRUE = Kind("WHERE_TST", "where", FLOATS | WIDE)
_NAMES = ("predicate", "true values", "false values")


@op("where")
class Where(Operation):
    """`ttnn.where(predicate, true_value, false_value)`; what is not zero is true."""

    arguments = with_signature(positional("predicate"), positional("true_value"), positional("false_value"), *PLACEMENT)

    def make_call(
        self,
        predicate: Any,
        true_value: Any,
        false_value: Any,
        memory_config: Any = None,
        output_tensor: Any = None,
        sub_core_grids: Any = None,
    ) -> Call:
        values = (true_value, false_value)
        if not all(isinstance(v, Tensor) or is_number(v) for v in values):
            raise wrong_types(self, (predicate, *values))
        tensors = [require_tensor(self, predicate, *values), *(v for v in values if isinstance(v, Tensor))]
        operands = len(tensors)
        if output_tensor is not None:
            tensors.append(require_tensor(self, output_tensor))
        scalars = tuple(None if isinstance(v, Tensor) else v for v in values)
        return Call(tensors, operands=operands, scalars=scalars, memory_config=memory_config, cores=sub_core_grids)

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        count, scalars = attributes["operands"], attributes["scalars"]
        operands, output = slots[:count], slots[count] if len(slots) > count else None
        config, cores = attributes["memory_config"], attributes["cores"]
        if count == 3:
            dtype = operands[1].spec.dtype if output is None else output.spec.dtype
            placement: dict[str, Any] = {"memory_config": config, "output": output, "cores": cores}
            return [plan_ternary(planner, "WHERE", operands, names=_NAMES, dtype=dtype, **placement)]
        if count == 2:
            kind = _SCALAR_FALSE if scalars[0] is None else _SCALAR_TRUE
            predicate, values = operands
            for scalar in scalars:
                check_scalar("ttnn.where", values.spec.dtype, scalar, "tensor")
            dtype, place = values.spec.dtype, config or _where_values_are(values.spec, predicate.spec)
            placement = {"memory_config": place, "output": output, "cores": cores}
            return [plan_binary(planner, kind, predicate, values, dtype=dtype, **placement)]
        return [_plan_unary(planner, operands[0], scalars, config, output, cores)]

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        out, specs = context.outputs[0], context.inputs
        predicate = operand_in(values[0], specs[0], out.shape, out.padded_shape) != 0
        chosen, tensors = [], list(zip(values, specs, strict=True))[1:]
        for scalar in attributes["scalars"]:
            if scalar is None:
                value, spec = tensors.pop(0)
                chosen.append(operand_in(value, spec, out.shape, out.padded_shape))
            else:
                chosen.append(scalar_operand(scalar, out.dtype, values[0]))
        result = torch.where(predicate, chosen[0], chosen[1]).expand(tuple(out.padded_shape))
        return [context.store(result if out.dtype.is_float else as_integer(result, out.dtype))]


def _where_values_are(values: Spec, predicate: Spec) -> MemoryConfig:
    """Beside the one tensor that is chosen from, and not beside the predicate."""
    return scaled_memory_config(values, predicate.shape) if values.is_sharded else values.memory_config


def _plan_unary(
    planner: Planner,
    x: Slot,
    scalars: tuple[float, float],
    config: MemoryConfig | None,
    output: Slot | None,
    cores: CoreRangeSet | None,
) -> Slot:
    """Integers that choose between floats become floats first."""
    source = x
    if x.spec.dtype is I32 and any(isinstance(s, float) for s in scalars):
        source = plan_typecast(planner, x, DataType.FLOAT32)
    kernel, dtype = Kernel("where", scalars), source.spec.dtype
    out = plan_unary(planner, source, kernel, dtype=dtype, memory_config=config, output=output, cores=cores)
    if source is not x:
        planner.free(source)
    return out
