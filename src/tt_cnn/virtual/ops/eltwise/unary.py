# SPDX-License-Identifier: Apache-2.0
"""Unary ops: one table of names, kernels and parameters; one class for their common plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.activations import Activation, Kernel, check_given, kernel_of
from tt_cnn.virtual.ops.eltwise.calls import (
    PLACEMENT,
    Parameter,
    check_rounding,
    is_number,
    keyword,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.eltwise.numbers import check_numbers, integer_unary, unary_register
from tt_cnn.virtual.ops.eltwise.typecast import plan_typecast
from tt_cnn.virtual.ops.eltwise.unary_plan import UnaryProgram, check_output_dtype, plan_unary
from tt_cnn.virtual.ops.operation import Call, Context, Operation, op
from tt_cnn.virtual.planning.plan import Planner, Slot
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import Arch, DataType, SigmoidMode
from tt_cnn.virtual.types.geometry import FACE_SIZE, TILE_SIZE
from tt_cnn.virtual.types.unary import activation

U8, U16, U32, I32 = DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.INT32
_MAY_BE_NONE = ("decimals", "eps", "max", "min", "rounding_mode")
NO_INTEGERS: frozenset[DataType] = frozenset()
SIGNED = frozenset({I32})
WIDE = frozenset({U32, I32})
WHOLE = frozenset({U32, I32, U16})
ALL_INTEGERS = frozenset({U32, I32, U16, U8})


class Unary(Operation):
    """A chain of vector-unit kernels on every element: shape, dtype, layout and shards stay as they are."""

    op_type = ""
    """The name in messages: `UnaryOpType::...`."""
    integers = NO_INTEGERS
    """Integer dtypes that the kernel takes (measured on every op and dtype)."""
    scratch = False
    make_kernel: Callable[..., Kernel]

    def make_call(
        self,
        input_tensor: Any,
        memory_config: Any = None,
        output_tensor: Any = None,
        sub_core_grids: Any = None,
        **parameters: Any,
    ) -> Call:
        x = require_tensor(self, input_tensor, *parameters.values())
        chain = (type(self).make_kernel(**self.numbers_only(parameters)),)
        check_numbers(chain, x.dtype)
        return self.chain_call(x, chain, memory_config, output_tensor, sub_core_grids)

    def numbers_only(self, parameters: dict[str, Any]) -> dict[str, Any]:
        for name, value in parameters.items():
            named = isinstance(value, SigmoidMode) or (name == "rounding_mode" and isinstance(value, str))
            if name == "rounding_mode":
                check_rounding(value)
            optional = value is None and name in _MAY_BE_NONE
            if not (is_number(value) or named or optional) or (name == "decimals" and not _is_int32(value)):
                raise wrong_types(self, ("input_tensor", *parameters.values()))
        return parameters

    def chain_call(
        self, x: Tensor, chain: tuple[Kernel, ...], memory_config: Any, output_tensor: Any, sub_core_grids: Any
    ) -> Call:
        tensors = [x] if output_tensor is None else [x, require_tensor(self, output_tensor)]
        return Call(tensors, chain=chain, memory_config=memory_config, cores=sub_core_grids)

    def plan(self, planner: Planner, x: Slot, output: Slot | None = None, **attributes: Any) -> list[Slot]:
        if output is not None:
            check_output_dtype(x.spec.dtype, output.spec.dtype)
        out = plan_unary(
            planner,
            x,
            *attributes["chain"],
            dtype=x.spec.dtype,
            memory_config=attributes["memory_config"],
            output=output,
            cores=attributes["cores"],
            scratch=self.scratch,
            check=lambda: check_dtype(planner, x.spec.dtype, self.op_type, self.integers),
        )
        return [out]

    def numbers(self, context: Context, x: torch.Tensor, *_: torch.Tensor, **__: Any) -> list[torch.Tensor]:
        return [context.store(chain_value(context, x))]


def chain_value(context: Context, x: torch.Tensor) -> torch.Tensor:
    """Register values after the planned chain of kernels. Integers may have been cast to floats before it."""
    step = next(step for step in context.steps if isinstance(step.program, UnaryProgram))
    dtype = step.inputs[0].spec.dtype
    if dtype.is_float and not x.is_floating_point():
        x = x.to(torch.float32)
    for kernel in context.program(UnaryProgram).chain:
        given = x
        if not dtype.is_float:
            x = integer_unary(kernel.name, x, kernel.params, dtype)
            continue
        fp32 = dtype is DataType.FLOAT32
        x = unary_register(context.engine, kernel.name, x, kernel.params, fp32_dest=fp32, approx=kernel.approx)
        if kernel.half:
            left = torch.arange(x.shape[-1], device=x.device) % TILE_SIZE < FACE_SIZE
            x = torch.where(left, x, given)
    return x


def _is_int32(value: Any) -> bool:
    return value is None or (isinstance(value, int) and -(2**31) <= value < 2**31)


def check_dtype(planner: Planner, dtype: DataType, op_type: str, integers: frozenset[DataType]) -> None:
    fatal(
        dtype.is_float or dtype in integers,
        f"Unary: UnaryOpType::{op_type} does not support integer input dtype {dtype.native}",
    )
    if op_type == "LGAMMA":
        fatal(
            dtype in (DataType.BFLOAT16, DataType.FLOAT32),
            f"Unary: LGAMMA requires BFLOAT16 or FLOAT32 input, got dtype {dtype.value}",
        )
    if op_type == "SOFTCAP":
        fatal(
            planner.card.arch is Arch.BLACKHOLE,
            f"Unary: SOFTCAP is implemented for Blackhole only, got arch {planner.card.arch.name.lower()}",
        )


def define(
    names: str,
    *parameters: Parameter,
    op_type: str = "",
    integers: frozenset[DataType] = NO_INTEGERS,
    kernel: str | Callable[..., Kernel] = "",
    scratch: bool = False,
    base: type[Unary] = Unary,
) -> None:
    """Register a unary op. Without a `kernel` its parameters go to the kernel of the op's own name."""
    first = names.split()[0]
    make = kernel if callable(kernel) else _passing(kernel or first)
    members = {
        "op_type": op_type or first.upper(),
        "integers": integers,
        "scratch": scratch,
        "make_kernel": staticmethod(make),
        "arguments": with_signature(
            positional("input_tensor"),
            *(p for p in parameters if p.kind is Parameter.POSITIONAL_OR_KEYWORD),
            *(p for p in parameters if p.kind is Parameter.KEYWORD_ONLY),
            *PLACEMENT,
        ),
        "__doc__": f"`ttnn.{first}` on the vector unit.",
    }
    op(*names.split())(type(first, (base,), members))


def _passing(name: str) -> Callable[..., Kernel]:
    return lambda **parameters: Kernel(name, tuple(parameters.values()))


def _with_fast_mode(name: str) -> Callable[..., Kernel]:
    return lambda fast_and_approximate_mode: Kernel(name, (), bool(fast_and_approximate_mode))


def _define_all(names: Iterable[str], integers: frozenset[DataType] = NO_INTEGERS) -> None:
    for name in names:
        define(name, integers=integers)


_define_all(
    [
        "acos",
        "acosh",
        "asin",
        "asinh",
        "atan",
        "atanh",
        "cbrt",
        "ceil",
        "cos",
        "cosh",
        "digamma",
        "erfc",
        "erfinv",
        "exp2",
        "expm1",
        "floor",
        "frac",
        "hardmish",
        "hardsigmoid",
        "hardswish",
        "i0",
        "i1",
        "isfinite",
        "isinf",
        "isnan",
        "isneginf",
        "isposinf",
        "lgamma",
        "sign",
        "sin",
        "sinh",
        "softsign",
        "tan",
        "tanhshrink",
        "trunc",
    ]
)
_define_all(["gez", "gtz", "lez", "ltz", "neg", "signbit"], SIGNED)
_define_all(["eqz", "nez", "square"], WHOLE)
_define_all(["abs", "identity", "relu", "relu6"], ALL_INTEGERS)
define("bitwise_not", integers=WIDE)
define("logical_not", op_type="LOGICAL_NOT_UNARY", integers=WHOLE)
define("silu swish")
define("reciprocal", op_type="RECIP")
define("deg2rad", op_type="MUL_UNARY_SFPU")
define("rad2deg", op_type="MUL_UNARY_SFPU")
define("log_sigmoid", op_type="LOGSIGMOID")

_FAST = keyword("fast_and_approximate_mode", False)
for _name in ["exp", "erf", "log", "log10", "log1p", "log2", "mish", "rsqrt", "sqrt", "tanh"]:
    define(_name, _FAST, kernel=_with_fast_mode(_name))

define("leaky_relu", positional("negative_slope"), integers=frozenset({U32, U16, U8}))
define("relu_max", positional("upper_limit"), integers=ALL_INTEGERS)
define("relu_min", positional("lower_limit"), integers=ALL_INTEGERS)
define("heaviside", positional("value"))
define("threshold", positional("threshold"), positional("value"))
define("fill", positional("fill_value"), integers=WHOLE)
define("rpow", positional("exponent"))
define("rdiv", positional("value"), keyword("rounding_mode"))
define("celu", keyword("alpha", 1.0), kernel=lambda alpha: Kernel("celu", (alpha,)) if alpha else Kernel("relu"))
define("elu", keyword("alpha", 1.0))
define("selu", keyword("scale", 1.0506999492645264), keyword("alpha", 1.673259973526001))
define("hardtanh", keyword("min_val", -1.0), keyword("max_val", 1.0))
define("hardshrink", keyword("lambd", 0.5))
define("softshrink", keyword("lambd", 0.5))
define("softplus", keyword("beta", 1.0), keyword("threshold", 20.0))
define("round", keyword("decimals", 0), kernel=lambda decimals: Kernel("round", (decimals or 0,)))
define("logit", keyword("eps"), scratch=True)
define("xielu", keyword("alpha_p", 0.800000011920929), keyword("alpha_n", 0.800000011920929))


_COLUMNS, _WHOLE_TILE = 2, 4
"""What a kernel works on: the first columns of faces, or all of a tile."""


def _sigmoid(vector_mode: int, mode: SigmoidMode | int) -> Kernel:
    if mode not in _SIGMOID and mode not in {one.value for one in SigmoidMode}:
        raise TypeError(f"ttnn.sigmoid(): incompatible function arguments: mode is {mode!r}, not a SigmoidMode")
    mode = SigmoidMode(mode) if isinstance(mode, int) else mode
    fatal(
        vector_mode in (_COLUMNS, _WHOLE_TILE),
        "Invalid Vector mode value. Expected vector mode C (2) or RC (4) for sigmoid",
    )
    return Kernel(*_SIGMOID[mode], half=vector_mode == _COLUMNS)


_SIGMOID: dict[SigmoidMode, tuple[str, tuple[float, ...], bool]] = {
    SigmoidMode.Accurate: ("sigmoid", (), False),
    SigmoidMode.AccurateWithFastExp: ("sigmoid_accurate", (), True),
    SigmoidMode.FastApproximate: ("sigmoid", (), True),
}


def _sigmoid_accurate(fast_and_approximate_mode: bool) -> Kernel:
    mode = SigmoidMode.AccurateWithFastExp if fast_and_approximate_mode else SigmoidMode.Accurate
    return Kernel(*_SIGMOID[mode])


define("sigmoid", keyword("vector_mode", 4), keyword("mode", SigmoidMode.Accurate), kernel=_sigmoid)
define(
    "sigmoid_accurate",
    positional("fast_and_approximate_mode", False),
    op_type="SIGMOID",
    kernel=_sigmoid_accurate,
)


def _clamp(min: float | None, max: float | None) -> Kernel:
    fatal(min is not None or max is not None, "Only one of 'min' or 'max' can be None. Please provide one value")
    return Kernel("clamp", (min, max))  # type: ignore[arg-type]


class Clamp(Unary):
    """Integers between bounds that are floats become floats first."""

    def plan(self, planner: Planner, x: Slot, output: Slot | None = None, **attributes: Any) -> list[Slot]:
        (kernel,) = attributes["chain"]
        if x.spec.dtype is not I32 or not any(isinstance(p, float) for p in kernel.params):
            return super().plan(planner, x, output, **attributes)
        floats = plan_typecast(planner, x, DataType.FLOAT32)
        (out,) = super().plan(planner, floats, output, **attributes)
        planner.free(floats)
        return [out]


_BOUNDS = (positional("min", None), positional("max", None))
define("clamp clip", *_BOUNDS, op_type="CLAMP_TSS", integers=SIGNED, kernel=_clamp, base=Clamp)


_GELU_VARIANTS = {"Accurate": Kernel("gelu"), "FastLut": Kernel("gelu", (), True), "Tanh": Kernel("gelu_tanh")}


@op("gelu")
class Gelu(Unary):
    """`ttnn.gelu`, by `variant` or by the older flag."""

    op_type = "GELU"
    arguments = with_signature(
        positional("input_tensor"), keyword("variant"), keyword("fast_and_approximate_mode", False), *PLACEMENT
    )

    def make_call(  # type: ignore[override]
        self, input_tensor: Any, variant: Any = None, fast_and_approximate_mode: bool = False, **placement: Any
    ) -> Call:
        if variant is not None and getattr(variant, "name", None) not in _GELU_VARIANTS:
            raise wrong_types(self, (input_tensor, variant))
        name = variant.name if variant is not None else "FastLut" if fast_and_approximate_mode else "Accurate"
        x = require_tensor(self, input_tensor)
        return self.chain_call(x, (_GELU_VARIANTS[name],), **placement)


@op("unary_chain")
class UnaryChain(Unary):
    """Several unary ops in one program, the register handed from one to the next."""

    integers = ALL_INTEGERS
    arguments = with_signature(positional("input_tensor"), positional("ops_chain"), *PLACEMENT)

    def make_call(self, input_tensor: Any, ops_chain: Any = (), **placement: Any) -> Call:  # type: ignore[override]
        x = require_tensor(self, input_tensor, ops_chain)
        fatal(len(ops_chain) > 0, "Op chain cannot be empty")
        pairs = [_pair(item) for item in ops_chain]
        check_given(pairs)
        chain = tuple(kernel_of(pair) for pair in pairs)
        check_numbers(chain, x.dtype)
        return self.chain_call(x, chain, **placement)


def _pair(item: Any) -> Activation:
    pair = activation(item)
    assert pair is not None
    return pair


@op("logical_not_")
class LogicalNotInPlace(Unary):
    """`ttnn.logical_not_`: the answer takes the place of the input."""

    op_type = "LOGICAL_NOT_UNARY"
    integers = WHOLE
    arguments = with_signature(positional("input_tensor"), keyword("memory_config"))

    def make_call(self, input_tensor: Any, memory_config: Any = None, *_: Any, **__: Any) -> Call:
        x = require_tensor(self, input_tensor)
        return Call([x], chain=(Kernel("logical_not"),), memory_config=memory_config, cores=None)

    def plan(self, planner: Planner, x: Slot, output: Slot | None = None, **attributes: Any) -> list[Slot]:
        return super().plan(planner, x, x, **attributes)
