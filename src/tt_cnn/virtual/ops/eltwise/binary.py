# SPDX-License-Identifier: Apache-2.0
"""Binary ops: tensors and scalars on either side, broadcast, activated, in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import Kernel, check_given
from tt_cnn.virtual.ops.eltwise.binary_numbers import binary_value, scalar_operand
from tt_cnn.virtual.ops.eltwise.binary_plan import BinaryProgram, plan_binary
from tt_cnn.virtual.ops.eltwise.calls import (
    MEMORY_CONFIG,
    OUTPUT_TENSOR,
    SUB_CORE_GRIDS,
    SUB_DEVICE_ID,
    Parameter,
    check_rounding,
    is_number,
    keyword,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.eltwise.kinds import BY_NAME, DIV, DIV_FLOOR, DIV_TRUNC, KINDS, Kind
from tt_cnn.virtual.ops.eltwise.numbers import operand_in, unary_register
from tt_cnn.virtual.ops.eltwise.promotion import Promotion, promotion
from tt_cnn.virtual.ops.eltwise.typecast import cast, plan_typecast
from tt_cnn.virtual.ops.eltwise.unary_plan import plan_unary
from tt_cnn.virtual.ops.layout.to_layout import plan_to_layout
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.unary import activation

_ROUNDED = {"floor": DIV_FLOOR, "trunc": DIV_TRUNC}


class Binary(Operation):
    """One device step, `BinaryNg`, with conversions around it where dtypes or layouts ask for them."""

    kind: Kind
    in_place = False
    scalar_first = False
    """A scalar may stand on the left."""

    def freed_input(self, call: Call, i: int) -> str:
        operands = call.attributes.get("operands", 1)
        return f"Input Tensor {'AB'[i]} is not allocated" if i < operands == 2 else "Input Tensor is not allocated"

    def make_call(self, first: Any, second: Any, **options: Any) -> Call:
        tensors = [x for x in (first, second) if isinstance(x, Tensor)]
        scalar_left = is_number(first) and self.scalar_first
        if not tensors or not (isinstance(first, Tensor) or scalar_left):
            raise wrong_types(self, (first, second))
        if not (isinstance(second, Tensor) or is_number(second)):
            raise wrong_types(self, (first, second))
        operands = len(tensors)
        refuse_unfollowed(self.name, sub_device_id=options.get("sub_device_id"))
        output = options.get("output_tensor")
        if output is not None:
            tensors.append(require_tensor(self, output))
        check_rounding(options.get("rounding_mode"))
        scalar = first if scalar_left else second if is_number(second) else None
        return Call(
            tensors,
            operands=operands,
            scalar=scalar,
            scalar_left=scalar_left,
            dtype=options.get("dtype"),
            memory_config=options.get("memory_config"),
            fast=options.get("fast_and_approximate_mode"),
            rounding=options.get("rounding_mode"),
            activations=tuple(
                _activations(options.get(name))
                for name in ("input_tensor_a_activations", "input_tensor_b_activations", "activations")
            ),
            cores=options.get("sub_core_grids"),
        )

    # --- plan -----------------------------------------------------------------------------------------------------

    def plan(self, planner: Planner, *slots: Slot, **attributes: Any) -> list[Slot]:
        return [self.plan_call(planner, self.kind, slots, attributes)]

    def plan_call(self, planner: Planner, kind: Kind, slots: Sequence[Slot], attributes: dict[str, Any]) -> Slot:
        count, rounding = attributes["operands"], attributes["rounding"]
        operands = list(slots[:count])
        output = operands[0] if self.in_place else slots[count] if len(slots) > count else None
        all_row_major = all(s.spec.layout is Layout.ROW_MAJOR for s in operands)
        change = promotion(kind, [s.spec for s in operands], attributes["scalar"])
        dtypes = [target or s.spec.dtype for s, target in zip(operands, change.targets, strict=True)]
        kind, dtype = _result(kind, dtypes, attributes, output)
        fatal(
            output is None or not all_row_major,
            "Optional output tensor with Row Major input is not supported right now for Elementwise operations",
        )
        kind.check_scalar(dtypes[0], attributes["scalar"])
        cast = _typecast(planner, operands, change)
        operands, converted = _tiled(planner, cast)
        left, right, after = attributes["activations"]
        if attributes["scalar_left"]:
            left, right = right, left
        last = rounding is None or kind.kernel != DIV.kernel
        out = plan_binary(
            planner,
            kind,
            operands[0],
            operands[1] if count == 2 else None,
            dtype=dtype,
            memory_config=attributes["memory_config"],
            output=output if last else None,
            fast=attributes["fast"],
            activations=(left, right, after),
            cores=attributes["cores"],
        )
        made = {s.id: s for s in (*cast, *operands)}
        temporaries = [made[i] for i in made.keys() - {slot.id for slot in slots}]
        if not last:  # a call of its own, after the quotient's
            planner.free(*temporaries)
            temporaries = [out]
            out = plan_unary(planner, out, Kernel(rounding), dtype=dtype, output=output)
        if all_row_major and converted:
            temporaries.append(out)
            out = plan_to_layout(planner, out, Layout.ROW_MAJOR, None, None)
        planner.free(*temporaries)
        return out

    # --- numbers --------------------------------------------------------------------------------------------------

    def numbers(self, context: Context, *values: torch.Tensor, **attributes: Any) -> list[torch.Tensor]:
        count, scalar = attributes["operands"], attributes["scalar"]
        out = context.outputs[0]
        step = next(step for step in context.steps if isinstance(step.program, BinaryProgram))
        kind = BY_NAME[context.program(BinaryProgram).kind]
        dtypes = [slot.spec.dtype for slot in step.inputs[:count]]
        operands = []
        for value, spec, dtype in zip(values, context.inputs, dtypes, strict=False):
            if dtype is not spec.dtype:
                value = cast(context, value, spec.dtype, dtype)
            operands.append(operand_in(value, spec, out.shape, out.padded_shape))
        if scalar is not None:
            operands.append(scalar_operand(scalar, dtypes[0], operands[0]))
            dtypes.append(DataType.BFLOAT16 if dtypes[0].is_block_float else dtypes[0])
        if attributes["scalar_left"]:
            operands.reverse()
            dtypes.reverse()
        result = binary_value(
            context.engine,
            kind,
            operands[0],
            operands[1],
            (dtypes[0], dtypes[1], out.dtype),
            attributes["fast"],
            attributes["activations"],
        )
        rounding = attributes["rounding"]
        if rounding is not None and kind is DIV:
            packed = context.engine.pack(result, out.dtype)
            result = unary_register(context.engine, rounding, packed, (), fp32_dest=out.dtype is DataType.FLOAT32)
        return [context.store(result.expand(tuple(out.padded_shape)))]


def _activations(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    pairs = tuple(activation(item) for item in given)
    check_given(pair for pair in pairs if pair is not None)
    return pairs


def _typecast(planner: Planner, operands: list[Slot], change: Promotion) -> list[Slot]:
    return [
        slot if target is None else plan_typecast(planner, slot, target)
        for slot, target in zip(operands, change.targets, strict=True)
    ]


def _result(
    kind: Kind, dtypes: Sequence[DataType], attributes: dict[str, Any], output: Slot | None
) -> tuple[Kind, DataType]:
    """The op that is dispatched and the dtype of what it makes."""
    asked = attributes["dtype"]
    if output is not None:
        fatal(
            asked is None or asked is output.spec.dtype,
            "If both output dtype and output tensor are provided, their dtypes should match",
        )
        asked = output.spec.dtype
    whole = kind is DIV and all(d is DataType.INT32 for d in dtypes)
    if whole and attributes["rounding"] is not None:
        return _ROUNDED[attributes["rounding"]], asked or DataType.INT32
    if whole:
        fatal(asked in (None, DataType.FLOAT32), "For integer division, supported output dtype is FLOAT32")
        return kind, DataType.FLOAT32
    return kind, asked or dtypes[0]


def _tiled(planner: Planner, operands: list[Slot]) -> tuple[list[Slot], bool]:
    """Row-major operands are worked on as they are only where all are row-major and none is sharded."""
    specs = [s.spec for s in operands]
    row_major = [spec.layout is Layout.ROW_MAJOR for spec in specs]
    if not any(row_major) or (all(row_major) and not any(spec.is_sharded for spec in specs)):
        return operands, False
    tiled = [
        plan_to_layout(planner, slot, Layout.TILE, None, None) if is_row_major else slot
        for slot, is_row_major in zip(operands, row_major, strict=True)
    ]
    return tiled, True


# --- the ops ------------------------------------------------------------------------------------------------------

_DTYPE = keyword("dtype")
_ACTIVATIONS = tuple(
    keyword(name, ()) for name in ("activations", "input_tensor_a_activations", "input_tensor_b_activations")
)
_WHERE = (SUB_CORE_GRIDS, SUB_DEVICE_ID)
_RESULT = (_DTYPE, MEMORY_CONFIG, OUTPUT_TENSOR, *_ACTIVATIONS)


def _fast(default: bool) -> Parameter:
    return keyword("fast_and_approximate_mode", default)


def define(
    names: str,
    kind: str,
    *options: Parameter,
    base: type[Binary] = Binary,
    operands: tuple[str, str] = ("input_tensor_a", "input_tensor_b"),
    **members: Any,
) -> None:
    """Register a binary op under TT-NN's names with its keyword options."""
    first, second = operands

    def make_call(self: Binary, **values: Any) -> Call:
        return base.make_call(self, values.pop(first), values.pop(second), **values)

    name = names.split()[0]
    body = {
        "kind": KINDS[kind],
        "make_call": make_call,
        "arguments": with_signature(positional(first), positional(second), *options),
        "__doc__": f"`ttnn.{name}`, element by element.",
        **members,
    }
    op(*names.split())(type(name, (base,), body))


define("add", "add", _fast(True), *_RESULT, *_WHERE, scalar_first=True)
define("subtract sub", "subtract", _fast(True), *_RESULT, *_WHERE, scalar_first=True)
define("multiply mul", "multiply", _fast(False), *_RESULT, *_WHERE, scalar_first=True)
define("divide div", "divide", _fast(False), keyword("rounding_mode"), *_RESULT, *_WHERE, scalar_first=True)
define("rsub", "rsub", *_RESULT, _fast(True))
_BOTH_WAYS = (
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "squared_difference",
    "ldexp",
    "logaddexp",
    "logaddexp2",
)
"""Ops that have a form in place, with an underscore at its end."""
for _name in [*_BOTH_WAYS, "xlogy"]:
    define(_name, _name, *_RESULT, *_WHERE)
for _name in ["hypot", "atan2"]:
    define(_name, _name, MEMORY_CONFIG)
for _name in ["gcd", "lcm"]:
    define(_name, _name, *_RESULT)
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]:
    define(_name, _name, MEMORY_CONFIG, OUTPUT_TENSOR, *_ACTIVATIONS, *_WHERE)

define("add_", "add", *_ACTIVATIONS, _fast(True), *_WHERE, in_place=True)
_IN_PLACE = ("input_a", "input_b")
define("subtract_ sub_", "subtract", *_ACTIVATIONS, _fast(True), *_WHERE, in_place=True)
define("multiply_ mul_", "multiply", *_ACTIVATIONS, _fast(False), *_WHERE, operands=_IN_PLACE, in_place=True)
define("divide_ div_", "divide", *_ACTIVATIONS, _fast(False), *_WHERE, operands=_IN_PLACE, in_place=True)
define("rsub_", "rsub", *_ACTIVATIONS, _fast(True), *_WHERE, operands=_IN_PLACE, in_place=True)
for _name in _BOTH_WAYS:
    define(f"{_name}_", _name, *_ACTIVATIONS, *_WHERE, operands=_IN_PLACE, in_place=True)
