# SPDX-License-Identifier: Apache-2.0
"""Ops of three operands: addcmul, addcdiv, lerp, mac. One device step, or calls of other ops where it has no kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.virtual import numerics
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics.vector_unit import VectorUnit
from tt_cnn.virtual.numerics.vector_unit.reciprocal import reciprocal_steps
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.calls import (
    MEMORY_CONFIG,
    OUTPUT_TENSOR,
    PLACEMENT,
    is_number,
    keyword,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.eltwise.kinds import BF8, BF16, F32, I32, U32
from tt_cnn.virtual.ops.eltwise.numbers import as_integer, operand_in, unary_register, unit_for
from tt_cnn.virtual.ops.eltwise.ternary_plan import Broadcast, broadcast_of, plan_ternary
from tt_cnn.virtual.ops.eltwise.unary import chain_value
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType

_NAMES = ("first", "second", "third")


class Ternary(Operation):
    """`compute` makes register values of three operands; `composed` is the same by calls of other ops."""

    kind = ""
    rounds_even = True
    """The kernel rounds bfloat16 results with integer instructions, and not with the unit's own conversion."""

    def composed(self, *operands: Any, **attributes: Any) -> Tensor:
        raise NotImplementedError

    def has_kernel(self, tensors: Sequence[Tensor]) -> bool:
        """Block formats are not spread in rows or columns (but in both at the same time they are)."""
        broadcast = broadcast_of(*(tensor.shape for tensor in tensors))
        blocks = any(tensor.dtype.is_block_float for tensor in tensors)
        return broadcast is not Broadcast.INVALID and not (blocks and broadcast.in_rows_or_columns)

    def shortcut(self, call: Call) -> Any:
        """Where there is no kernel: commands of other ops, and a copy into the output that was given."""
        operands = _interleaved(call.tensors, call.attributes["scalars"])
        if self.has_kernel(call.tensors[: call.attributes["operands"]]):
            return None
        *_, output = [None, *call.tensors[call.attributes["operands"] :]]
        result = self.composed(*operands, config=call.attributes["memory_config"], value=call.attributes["value"])
        if output is None:
            return result
        OPERATIONS["copy"](result, output)
        return output

    def make_call(self, *operands: Any, value: float = 1.0, memory_config: Any = None, **options: Any) -> Call:
        first, *rest = operands
        if not all(isinstance(one, Tensor) or is_number(one) for one in rest):
            raise wrong_types(self, operands)
        tensors = [require_tensor(self, first, *rest), *(one for one in rest if isinstance(one, Tensor))]
        count = len(tensors)
        output = options.get("output_tensor")
        if output is not None:
            tensors.append(require_tensor(self, output))
        return Call(
            tensors,
            operands=count,
            scalars=tuple(None if isinstance(one, Tensor) else one for one in operands),
            value=value,
            memory_config=memory_config,
            cores=options.get("sub_core_grids"),
        )

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        count = attributes["operands"]
        output = slots[count] if len(slots) > count else None
        out = plan_ternary(
            planner,
            self.kind,
            slots[:count],
            names=[name for name, scalar in zip(_NAMES, attributes["scalars"], strict=True) if scalar is None],
            dtype=slots[0].spec.dtype if output is None else output.spec.dtype,
            memory_config=self.placement(slots[0], attributes["memory_config"]),
            output=output,
            cores=attributes["cores"],
        )
        return [out]

    def placement(self, first: Slot, asked: Any) -> Any:
        return asked

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        out, dtypes = context.outputs[0], [spec.dtype for spec in context.inputs]
        operands: list[Any] = [
            operand_in(value, spec, out.shape, out.padded_shape)
            for value, spec in zip(values[: attributes["operands"]], context.inputs, strict=False)
        ]
        operands = list(torch.broadcast_tensors(*operands))
        for at, scalar in enumerate(attributes["scalars"]):
            if scalar is not None:
                operands.insert(at, scalar)
        result = self.values(context, operands, dtypes, attributes["value"])
        return [context.store(result.expand(tuple(out.padded_shape)))]

    def values(self, context: Context, operands: list[Any], dtypes: list[DataType], value: float) -> torch.Tensor:
        """Register values."""
        engine = context.engine
        fp32 = context.outputs[0].dtype is F32
        if engine.numerics == "native":
            return self.native(*operands, value)
        unit = unit_for(engine, fp32)
        like = operands[0]
        lanes = [
            x.contiguous() if isinstance(x, torch.Tensor) else unit.store(torch.full_like(like, x)) for x in operands
        ]
        result = self.compute(unit, *lanes, value)
        return unit.round_even(result) if self.rounds_even else unit.round(result)

    native: Callable[..., torch.Tensor]
    compute: Callable[..., torch.Tensor]


def _interleaved(tensors: Sequence[Tensor], scalars: Sequence[float | None]) -> list[Any]:
    rest = iter(tensors)
    return [next(rest) if scalar is None else scalar for scalar in scalars]


_VALUE = keyword("value", 1.0)
_THREE = (positional("input_a"), positional("input_b"), positional("input_c"))


def _require_tensors(operation: Operation, *operands: Any) -> None:
    for one in operands:
        require_tensor(operation, one, *operands)


@op("addcmul")
class Addcmul(Ternary):
    """`ttnn.addcmul`: a + value * b * c."""

    kind = "ADDCMUL"
    arguments = with_signature(*_THREE, _VALUE, MEMORY_CONFIG, OUTPUT_TENSOR)
    _dtypes = (BF16, BF8, F32, I32, U32)

    def make_call(self, input_a: Any, input_b: Any, input_c: Any, **options: Any) -> Call:  # type: ignore[override]
        operands = (input_a, input_b, input_c)
        _require_tensors(self, *operands)
        dtype, others = input_a.dtype, (input_b.dtype, input_c.dtype)
        fatal(
            dtype in self._dtypes,
            f"Addcmul supports only BFLOAT16, BFLOAT8_B, FLOAT32, INT32, and UINT32 dtypes. Got {dtype.native}",
        )
        fatal(
            others == (dtype, dtype),
            "Addcmul TTT requires all input tensors to have the same dtype. Got "
            f"input_a={dtype.native}, input_b={others[0].native}, input_c={others[1].native}",
        )
        return super().make_call(*operands, **options)

    def composed(self, a: Any, b: Any, c: Any, *, config: Any, value: float, **_: Any) -> Tensor:
        scaled = OPERATIONS["multiply"](b, float(value), memory_config=config)
        product = OPERATIONS["multiply"](scaled, c, memory_config=config)
        del scaled
        return OPERATIONS["add"](a, product, memory_config=config)

    def native(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, value: float) -> torch.Tensor:
        return a + value * b * c

    def compute(
        self, unit: VectorUnit, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, value: float
    ) -> torch.Tensor:
        return unit.mad(unit.mul(b, value), c, a)

    def values(self, context: Context, operands: list[Any], dtypes: list[DataType], value: float) -> torch.Tensor:
        """Products and sums of bfloat16 and block formats are the matrix unit's; only the scaling is the vector's."""
        a, b, c = operands
        dtype, engine, out = dtypes[0], context.engine, context.outputs[0].dtype
        if not dtype.is_float:
            return as_integer(a.to(torch.int64) + int(value) * b.to(torch.int64) * c.to(torch.int64), out)
        if dtype is F32 or engine.numerics == "native":
            return super().values(context, operands, dtypes, value)
        matrix: dict[str, Any] = {"out_dtype": out, "fast": True, "exact": engine.numerics == "exact"}
        product = numerics.binary_register("mul", b, c, dtype, dtype, **matrix)
        scaled = unary_register(engine, "mul_unary", product, (value,), fp32_dest=out is F32)
        return numerics.binary_register("add", scaled, a, BF16, dtype, **matrix)


@op("addcdiv")
class Addcdiv(Ternary):
    """`ttnn.addcdiv`: a + value * b / c."""

    kind = "ADDCDIV"
    arguments = with_signature(*_THREE, _VALUE, MEMORY_CONFIG, OUTPUT_TENSOR)

    def make_call(self, input_a: Any, input_b: Any, input_c: Any, **options: Any) -> Call:  # type: ignore[override]
        operands = (input_a, input_b, input_c)
        _require_tensors(self, *operands)
        fatal(any(one.dtype is not I32 for one in operands), "Addcdiv TTT does not support INT32 inputs.")
        return super().make_call(*operands, **options)

    def has_kernel(self, tensors: Sequence[Tensor]) -> bool:
        blocks = any(tensor.dtype.is_block_float for tensor in tensors)
        return not blocks and super().has_kernel(tensors)

    def composed(self, a: Any, b: Any, c: Any, *, config: Any, value: float, **_: Any) -> Tensor:
        """What is divided by zero becomes infinite with the sign of the dividend, or no number."""
        do = OPERATIONS
        scaled = do["multiply"](b, float(value), memory_config=config)
        quotient = do["divide"](scaled, c, memory_config=config)
        result = do["add"](a, quotient, memory_config=config)
        if result.dtype is F32:
            return result
        sign = do["sign"](b, memory_config=config)
        signed = do["where"](do["eqz"](b, memory_config=config), math.nan, sign, memory_config=config)
        infinite = do["multiply"](signed, math.copysign(math.inf, value), memory_config=config)
        by_zero = do["eqz"](c, memory_config=config)
        return do["where"](by_zero, infinite, result, memory_config=config)

    def native(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, value: float) -> torch.Tensor:
        return a + value * b / c

    def compute(
        self, unit: VectorUnit, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, value: float
    ) -> torch.Tensor:
        return unit.mad(unit.mul(b, value), reciprocal_steps(unit, c, 2), a)


class OnItsFirstOperand(Ternary):
    """The output lies where the first operand does, whatever the others' shards."""

    def placement(self, first: Slot, asked: Any) -> Any:
        return asked or first.spec.memory_config


@op("lerp")
class Lerp(OnItsFirstOperand):
    """`ttnn.lerp`: input + weight * (end - input)."""

    kind = "LERP"
    arguments = with_signature(
        positional("input"), positional("end"), positional("weight"), MEMORY_CONFIG, OUTPUT_TENSOR
    )

    def make_call(self, input: Any, end: Any, weight: Any, **options: Any) -> Call:  # type: ignore[override]
        _require_tensors(self, input, end)
        tensors = {"input": input, "end": end} | ({"weight": weight} if isinstance(weight, Tensor) else {})
        fatal(
            all(one.dtype is not U32 for one in tensors.values()),
            "lerp does not support UINT32 inputs. Got "
            + ", ".join(f"{name}={one.dtype.native}" for name, one in tensors.items()),
        )
        return super().make_call(input, end, weight, **options)

    def has_kernel(self, tensors: Sequence[Tensor]) -> bool:
        return super().has_kernel(tensors) and any(tensor.dtype is not I32 for tensor in tensors)

    def composed(self, start: Any, end: Any, weight: Any, *, config: Any, **_: Any) -> Tensor:
        for name, one in (("end", end), ("weight", weight)):
            same = not isinstance(one, Tensor) or one.dtype is start.dtype
            fatal(same, f"Expected the same dtype as start (input), for {name}")
        difference = OPERATIONS["subtract"](end, start, memory_config=config)
        if not isinstance(weight, Tensor):  # of a scalar weight all that was made stays to the end
            weighted = OPERATIONS["multiply"](difference, float(weight), memory_config=config)
            return OPERATIONS["add"](start, weighted, memory_config=config)
        weighted = OPERATIONS["multiply"](difference, weight, memory_config=config)
        del difference
        return OPERATIONS["add"](start, weighted, memory_config=config)

    def native(self, a: torch.Tensor, b: torch.Tensor, weight: torch.Tensor, _: float) -> torch.Tensor:
        return a + weight * (b - a)

    def compute(self, unit: VectorUnit, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, _: float) -> torch.Tensor:
        return unit.mad(c, unit.sub(b, a), a)


@op("mac")
class Mac(OnItsFirstOperand):
    """`ttnn.mac`: a * b + c, where b and c may be scalars."""

    kind = "MAC"
    rounds_even = False
    arguments = with_signature(
        positional("input_tensor_a"), positional("input_tensor_b"), positional("input_tensor_c"), *PLACEMENT
    )

    def make_call(self, input_tensor_a: Any, input_tensor_b: Any, input_tensor_c: Any, **options: Any) -> Call:  # type: ignore[override]
        operands = (input_tensor_a, input_tensor_b, input_tensor_c)
        given = [name for name in ("output_tensor", "sub_core_grids") if options.get(name) is not None]
        if given and not all(isinstance(one, Tensor) for one in operands):
            raise wrong_types(self, operands)
        call = super().make_call(*operands, **options)
        for name in given:
            fatal(
                self.has_kernel(operands),
                f"ttnn::mac: {name} is not supported when the operation falls back to the composite path (unsupported "
                "broadcast shape, block-float subtile broadcast, or integer input dtype). "
                f"Remove {name} or use shapes/dtypes that are supported by the native LLK path.",
            )
        return call

    def has_kernel(self, tensors: Sequence[Tensor]) -> bool:
        return super().has_kernel(tensors) and all(tensor.dtype.is_float for tensor in tensors)

    def composed(self, a: Any, b: Any, c: Any, *, config: Any, **_: Any) -> Tensor:
        b, c = (one if isinstance(one, Tensor) else float(one) for one in (b, c))
        return OPERATIONS["add"](OPERATIONS["multiply"](a, b, memory_config=config), c, memory_config=config)

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        _, factor, summand = attributes["scalars"]
        if factor is None or summand is None:
            return super().plan(planner, *slots, **attributes)
        (x,) = slots
        chain = Kernel("mul_unary", (float(factor),)), Kernel("add_unary", (float(summand),))
        return [plan_unary(planner, x, *chain, dtype=x.spec.dtype, memory_config=attributes["memory_config"])]

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        if attributes["operands"] == 1:
            return [context.store(chain_value(context, values[0]))]
        return super().numbers(context, *values, **attributes)

    def native(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, _: float) -> torch.Tensor:
        return a * b + c

    def compute(self, unit: VectorUnit, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, _: float) -> torch.Tensor:
        return unit.mad(a, b, c)
