# SPDX-License-Identifier: Apache-2.0
"""Binary ops that are dispatched as unary ones when one side is a scalar: maximum, minimum, fmod, remainder, pow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import Kernel
from tt_cnn.virtual.ops.eltwise.binary import _ACTIVATIONS, _RESULT, _WHERE, Binary, _fast, define
from tt_cnn.virtual.ops.eltwise.binary_numbers import binary_value, scalar_operand
from tt_cnn.virtual.ops.eltwise.binary_plan import BinaryProgram
from tt_cnn.virtual.ops.eltwise.calls import (
    MEMORY_CONFIG,
    OUTPUT_TENSOR,
    is_number,
    keyword,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.eltwise.kinds import ADD, I32, KINDS, POWER, U16, U32
from tt_cnn.virtual.ops.eltwise.numbers import integer_unary
from tt_cnn.virtual.ops.eltwise.typecast import (
    IntegerPowerProgram,
    TypecastProgram,
    cast,
    plan_integer_power,
    plan_typecast,
)
from tt_cnn.virtual.ops.eltwise.unary import chain_value, check_dtype
from tt_cnn.virtual.ops.eltwise.unary_plan import UnaryProgram, check_output_dtype, plan_unary
from tt_cnn.virtual.ops.layout.copy import plan_copy
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.unary import UnaryOpType, UnaryWithParam


class UnaryWithScalar(Binary):
    """With a scalar on the right this is the unary kernel `scalar_kernel`."""

    scalar_kernel = ""
    scalar_integers: frozenset[DataType] = frozenset()
    options_ask_for_binary = False
    """A dtype or activations bring the binary kernel back; else they mean a typecast afterwards, and nothing."""

    def _is_binary(self, attributes: dict[str, Any]) -> bool:
        options = attributes["dtype"] is not None or any(attributes["activations"])
        return attributes["operands"] == 2 or (self.options_ask_for_binary and options)

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        if self._is_binary(attributes):
            return super().plan(planner, *slots, **attributes)
        x, *outputs = slots
        if outputs:
            check_output_dtype(x.spec.dtype, outputs[0].spec.dtype)
        kernel = Kernel(self.scalar_kernel, (attributes["scalar"],))
        out = plan_unary(
            planner,
            x,
            kernel,
            dtype=x.spec.dtype,
            memory_config=attributes["memory_config"],
            output=outputs[0] if outputs else None,
            check=lambda: check_dtype(planner, x.spec.dtype, self.kind.name, self.scalar_integers),
        )
        asked = attributes["dtype"]
        if asked is None or asked is out.spec.dtype:
            return [out]
        converted = plan_typecast(planner, out, asked)
        planner.free(out)
        return [converted]

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        if any(isinstance(step.program, BinaryProgram) for step in context.steps):
            return super().numbers(context, *values, **attributes)
        value = chain_value(context, values[0])
        last = context.steps[-1]
        if isinstance(last.program, TypecastProgram):
            source = last.inputs[0].spec.dtype
            value = cast(context, context.engine.pack(value, source), source, last.program.dtype)
        return [context.store(value)]


_WIDE = frozenset({U32, I32})


class Modulo(UnaryWithScalar):
    """`remainder` and `fmod`: the binary kernel for int32 and a whole scalar, floats for int32 and a float."""

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        x, scalar = slots[0], attributes["scalar"]
        if scalar is None or x.spec.dtype not in (I32, U32):
            return super().plan(planner, *slots, **attributes)
        if x.spec.dtype is U32 and self.kind.kernel == "remainder":
            fatal(isinstance(scalar, int), "Expected integer scalar divisor (uint32 or int32)")
            fatal(scalar > 0, f"Divisor must be positive, got {scalar}")
        if x.spec.dtype is U32:
            return super().plan(planner, *slots, **attributes)
        if isinstance(scalar, int):
            return Binary.plan(self, planner, *slots, **attributes)
        floats = plan_typecast(planner, x, DataType.FLOAT32)
        (out,) = super().plan(planner, floats, *slots[1:], **attributes)
        planner.free(floats)
        return [out]


for _name in ("maximum", "minimum"):
    define(_name, _name, *_RESULT, base=UnaryWithScalar, scalar_kernel=f"{_name}_unary", scalar_integers=_WIDE)
define(
    "remainder",
    "remainder",
    *_RESULT,
    *_WHERE,
    base=Modulo,
    scalar_kernel="remainder_unary",
    scalar_integers=_WIDE,
    options_ask_for_binary=True,
)
define(
    "fmod",
    "fmod",
    MEMORY_CONFIG,
    *_WHERE,
    base=Modulo,
    scalar_kernel="fmod_unary",
    scalar_integers=frozenset({I32}),
)


class BiasGelu(Binary):
    """With a scalar: `add`, then `gelu`, after a typecast where another dtype is asked for."""

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        if attributes["operands"] == 2:
            return super().plan(planner, *slots, **attributes)
        x, *outputs = slots
        output = x if self.in_place else outputs[0] if outputs else None
        asked = attributes["dtype"]
        cast_first = asked is not None and asked is not x.spec.dtype
        left = plan_typecast(planner, x, asked) if cast_first else x
        plain = {**attributes, "dtype": None, "activations": ((), (), ()), "fast": None}
        total = self.plan_call(planner, ADD, [left, *outputs], plain)
        check_dtype(planner, total.spec.dtype, "GELU", frozenset())
        out = plan_unary(planner, total, Kernel("gelu"), dtype=total.spec.dtype, output=output)
        planner.free(*([] if total is out else [total]), *([left] if cast_first else []))
        return [out]

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        if attributes["operands"] == 2:
            return super().numbers(context, *values, **attributes)
        dtype = attributes["dtype"] or context.inputs[0].dtype
        x = cast(context, values[0], context.inputs[0].dtype, dtype) if attributes["dtype"] else values[0]
        right = scalar_operand(attributes["scalar"], dtype, x)
        total = context.engine.pack(binary_value(context.engine, ADD, x, right, (dtype, dtype, dtype)), dtype)
        return [context.store(chain_value(context, total))]


define("bias_gelu", "bias_gelu", _fast(False), *_RESULT, *_WHERE, base=BiasGelu)
define("bias_gelu_", "bias_gelu", *_ACTIVATIONS, *_WHERE, base=BiasGelu, operands=("input_a", "input_b"), in_place=True)


class WithAlpha(Binary):
    """The right operand is scaled on its way to the sum or difference."""

    arguments = with_signature(
        positional("input_tensor_a"), positional("input_tensor_b"), positional("alpha"), MEMORY_CONFIG, OUTPUT_TENSOR
    )

    def make_call(self, input_tensor_a: Any, input_tensor_b: Any, alpha: Any, **options: Any) -> Call:  # type: ignore[override]
        operands = (input_tensor_a, input_tensor_b)
        for one in operands:
            require_tensor(self, one, *operands)
        if not is_number(alpha):
            raise wrong_types(self, (*operands, alpha))
        scaling = UnaryWithParam(UnaryOpType.MUL_UNARY_SFPU, float(alpha))
        return super().make_call(*operands, input_tensor_b_activations=[scaling], **options)


@op("addalpha")
class Addalpha(WithAlpha):
    """`ttnn.addalpha`: a + alpha * b."""

    kind = KINDS["add"]


@op("subalpha")
class Subalpha(WithAlpha):
    """`ttnn.subalpha`: a - alpha * b."""

    kind = KINDS["subtract"]


@op("prelu")
class Prelu(UnaryWithScalar):
    """`ttnn.prelu` with one slope for all channels."""

    kind = KINDS["add"]
    scalar_kernel = "prelu"
    arguments = with_signature(positional("input_tensor_a"), positional("weight"), MEMORY_CONFIG)

    def run(self, call: Call) -> Any:
        return Operation.run(self, call)

    def make_call(self, input_tensor_a: Any, weight: Any, memory_config: Any = None, **_: Any) -> Call:  # type: ignore[override]
        x = require_tensor(self, input_tensor_a, weight)
        if isinstance(weight, Tensor):
            raise NotImplementedError("ttnn.prelu with a tensor of slopes is not part of the virtual card yet")
        slopes = [weight] if is_number(weight) else weight
        if not isinstance(slopes, (list, tuple)) or len(slopes) != 1 or not is_number(slopes[0]):
            raise wrong_types(self, (input_tensor_a, weight))
        return Call([x], scalar=float(slopes[0]), memory_config=memory_config)

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        (x,) = slots
        check_dtype(planner, x.spec.dtype, "PRELU_SFPU", frozenset())
        kernel = Kernel("prelu", (attributes["scalar"],))
        return [plan_unary(planner, x, kernel, dtype=x.spec.dtype, memory_config=attributes["memory_config"])]


@op("pow")
class Pow(Binary):
    """`ttnn.pow`: a tensor to a scalar, a tensor or a scalar to a tensor."""

    kind = POWER
    scalar_first = True
    arguments = with_signature(
        positional("input_tensor"),
        positional("exponent"),
        keyword("dtype"),
        MEMORY_CONFIG,
        OUTPUT_TENSOR,
        *_ACTIVATIONS,
    )

    def make_call(self, input_tensor: Any, exponent: Any, **options: Any) -> Call:  # type: ignore[override]
        if not isinstance(input_tensor, Tensor) and not isinstance(input_tensor, float):
            raise wrong_types(self, (input_tensor, exponent))
        return super().make_call(input_tensor, exponent, **options)

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        if attributes["scalar"] is None or attributes["scalar_left"]:
            return [self._tensor_exponent(planner, slots, attributes)]
        x, *outputs = slots
        exponent = float(attributes["scalar"])
        output = outputs[0] if outputs else None
        if x.spec.dtype in (I32, U32, U16):
            fatal(
                exponent.is_integer() and abs(exponent) < 2**31,
                f"pow: {x.spec.dtype.native} input requires an integral exponent, got {exponent:g}",
            )
            fatal(exponent >= 0, f"pow: integers to negative integer powers are not allowed, got {exponent:.0f}")
            return [plan_integer_power(planner, x, int(exponent), attributes["memory_config"], output)]
        if exponent == 1.0:
            config = output.spec.memory_config if output else attributes["memory_config"] or x.spec.memory_config
            return [plan_copy(planner, x, config, None, output)]
        op_type = "POWER_ITERATIVE" if exponent.is_integer() and exponent >= 0 else "POWER"
        check_dtype(planner, x.spec.dtype, op_type, frozenset())
        kernel = Kernel("pow", (exponent,))
        placement = {"memory_config": attributes["memory_config"], "output": output}
        return [plan_unary(planner, x, kernel, dtype=x.spec.dtype, **placement)]

    def _tensor_exponent(self, planner: Planner, slots: Sequence[Slot], attributes: dict[str, Any]) -> Slot:
        dtype = slots[0].spec.dtype
        fatal(
            dtype not in (I32, U32, U16),
            f"Input tensor A dtype {dtype.native} is not supported for binary operation POWER: tensor exponents are "
            "not supported for integer inputs, use a scalar integer exponent",
        )
        if not attributes["scalar_left"]:
            return self.plan_call(planner, POWER, slots, attributes)
        exponent, *outputs = slots
        POWER.check_dtypes(dtype, None)
        fill = Kernel("fill", (attributes["scalar"],))
        base = plan_unary(planner, exponent, fill, dtype=dtype)
        out = self.plan_call(planner, POWER, [base, exponent, *outputs], {**attributes, "operands": 2, "scalar": None})
        planner.free(base)
        return out

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        program = context.steps[-1].program
        if isinstance(program, UnaryProgram):
            return [context.store(chain_value(context, values[0]))]
        if isinstance(program, IntegerPowerProgram):
            dtype = context.inputs[0].dtype
            return [context.store(integer_unary("pow", values[0], (attributes["scalar"],), dtype))]
        if attributes["scalar"] is None or attributes["scalar_left"]:
            return super().numbers(context, *values, **attributes)
        return [context.store(values[0])]
