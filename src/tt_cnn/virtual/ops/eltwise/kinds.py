# SPDX-License-Identifier: Apache-2.0
"""Binary ops as data: the dtypes each takes, the unit it runs on, and what surrounds it there.

Measured on TT-NN 0.81.1 over all ops and pairs of dtypes; the unit shows in the size of the intermediate buffers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.enums import DataType

BF16, F32, BF8, BF4 = DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B, DataType.BFLOAT4_B
I32, U32, U16, U8 = DataType.INT32, DataType.UINT32, DataType.UINT16, DataType.UINT8
FLOATS = frozenset({BF16, F32, BF8, BF4})
WIDE = frozenset({U32, I32})
WHOLE = WIDE | {U16}
_UNSPLIT = frozenset({F32, I32, U32, U16})
"""Formats that the matrix unit cannot hold whole."""

_INTEGER_RANGE = {I32: (-(2**31), 2**31 - 1), U32: (0, 2**32 - 1)}

UnitRule = Callable[[DataType, DataType, bool], bool]


def _always_vector(a: DataType, b: DataType, fast: bool) -> bool:
    return True


def _matrix_unless_unsplit(a: DataType, b: DataType, fast: bool) -> bool:
    return a is b and a in _UNSPLIT


def _arithmetic(a: DataType, b: DataType, fast: bool) -> bool:
    return _matrix_unless_unsplit(a, b, fast) or not fast


def _multiply(a: DataType, b: DataType, fast: bool) -> bool:
    return _matrix_unless_unsplit(a, b, fast) or (not fast and not a.is_block_float and not b.is_block_float)


def _divide(a: DataType, b: DataType, fast: bool) -> bool:
    return not fast or (a is b and a in (F32, I32))


def _compare(a: DataType, b: DataType, fast: bool) -> bool:
    return a is b and (a in _UNSPLIT or a is BF16)


def check_scalar(operation: str, dtype: DataType, scalar: float | int | None, operand: str = "input") -> None:
    """A float next to 32-bit integers must be one of them; what is an int already is only wrapped."""
    if dtype not in _INTEGER_RANGE or not isinstance(scalar, float):
        return
    low, high = _INTEGER_RANGE[dtype]
    fatal(
        scalar.is_integer() and low <= scalar <= high,
        f"{operation} with a {dtype.native} tensor cannot represent the scalar {scalar:g}: only a finite integer "
        f"within the range of {dtype.native} survives being packed as one, and this value would be changed silently. "
        f"Typecast the {operand} to a floating-point dtype first.",
    )


@dataclass(frozen=True)
class Kind:
    """One `BinaryOpType`."""

    name: str
    kernel: str
    dtypes: frozenset[DataType] = FLOATS
    mixed: frozenset[DataType] = frozenset()
    """Dtypes that may be mixed with each other."""
    vector: UnitRule = _always_vector
    lhs: str = ""
    rhs: str = ""
    post: str = ""
    matrix_only: bool = False
    """`lhs`, `rhs` and `post` surround the op on the matrix unit only; the vector unit has a kernel of its own."""
    core: str = ""
    """The op between `lhs`, `rhs` and `post`, where they are used."""
    fast: bool = False
    """The default of `fast_and_approximate_mode`."""

    def on_vector_unit(self, a: DataType, b: DataType, fast: bool | None) -> bool:
        return self.vector(a, b, self.fast if fast is None else fast)

    def surroundings(self, vector: bool) -> tuple[str, str, str]:
        """Unary kernels applied to the left, to the right and to the result."""
        if vector and self.matrix_only:
            return "", "", ""
        return self.lhs, self.rhs, self.post

    def check_dtypes(self, a: DataType, b: DataType | None) -> None:
        for side, dtype in (("A", a), ("B", b)):
            fatal(
                dtype is None or dtype in self.dtypes,
                f"Input tensor {side} dtype {dtype and dtype.native} is not supported for binary operation "
                f"BinaryOpType::{self.name}",
            )
        if b is None or a is b or (a in self.mixed and b in self.mixed):
            return
        fatal(
            False,
            f"Mixed dtype is not supported for binary operation BinaryOpType::{self.name}, dtype A: {a.native}, "
            f"dtype B: {b.native}",
        )

    def check_scalar(self, dtype: DataType, scalar: float | int | None) -> None:
        check_scalar(f"Binary operation BinaryOpType::{self.name}", dtype, scalar)

    def check_fast_mode(self, fast: bool | None, out: DataType) -> None:
        """Only additions have an accurate variant, and only bfloat16 results differ in it."""
        if fast is not False or self.vector is not _arithmetic:
            return
        fatal(
            out is BF16,
            "fast_and_approximate_mode=false is only supported for a BFLOAT16 output on binary operation "
            f"BinaryOpType::{self.name}, got output dtype {out.native}. The accurate path exists to round the bfloat16 "
            "result to nearest even, so it has no effect for other output dtypes; leave the flag unset (or pass true) "
            "for those.",
        )


def _comparison(name: str, test: str) -> Kind:
    everything = FLOATS | WHOLE | {U8}
    return Kind(name.upper(), name, everything, FLOATS, _compare, post=test, matrix_only=True, core="sub")


def _logical(name: str, core: str) -> Kind:
    return Kind(
        name.upper(), name, FLOATS | WHOLE, FLOATS, _matrix_unless_unsplit, lhs="nez", rhs="nez", post="nez", core=core
    )


ADD = Kind("ADD", "add", FLOATS | WHOLE, FLOATS, _arithmetic, fast=True)
SUB = Kind("SUB", "sub", FLOATS | WHOLE, FLOATS, _arithmetic, fast=True)
RSUB = Kind("RSUB", "rsub", FLOATS | WHOLE, FLOATS, _arithmetic, lhs="neg", matrix_only=True, core="add", fast=True)
MUL = Kind("MUL", "mul", FLOATS | WHOLE, FLOATS, _multiply)
DIV = Kind("DIV", "div", FLOATS | {I32}, FLOATS, _divide, rhs="reciprocal", matrix_only=True, core="mul")
DIV_FLOOR = Kind("DIV_FLOOR", "div_floor", frozenset({I32}))
DIV_TRUNC = Kind("DIV_TRUNC", "div_trunc", frozenset({I32}))
POWER = Kind("POWER", "pow")

KINDS: dict[str, Kind] = {
    "add": ADD,
    "subtract": SUB,
    "multiply": MUL,
    "divide": DIV,
    "rsub": RSUB,
    "maximum": Kind("MAXIMUM", "maximum", FLOATS | WIDE),
    "minimum": Kind("MINIMUM", "minimum", FLOATS | WIDE),
    "eq": _comparison("eq", "eqz"),
    "ne": _comparison("ne", "nez"),
    "lt": _comparison("lt", "ltz"),
    "le": _comparison("le", "lez"),
    "gt": _comparison("gt", "gtz"),
    "ge": _comparison("ge", "gez"),
    "logical_and": _logical("logical_and", "mul"),
    "logical_or": _logical("logical_or", "add"),
    "logical_xor": _logical("logical_xor", "sub"),
    "squared_difference": Kind(
        "SQUARED_DIFFERENCE",
        "squared_difference",
        FLOATS | WHOLE,
        FLOATS,
        _matrix_unless_unsplit,
        post="square",
        core="sub",
    ),
    "ldexp": Kind("LDEXP", "ldexp", vector=_matrix_unless_unsplit, rhs="exp2", core="mul"),
    "logaddexp": Kind("LOGADDEXP", "logaddexp"),
    "logaddexp2": Kind("LOGADDEXP2", "logaddexp2"),
    "bias_gelu": Kind("BIAS_GELU", "bias_gelu", vector=_matrix_unless_unsplit, post="gelu", core="add"),
    "hypot": Kind("HYPOT", "hypot", vector=_matrix_unless_unsplit, lhs="square", rhs="square", post="sqrt", core="add"),
    "xlogy": Kind("XLOGY", "xlogy"),
    "remainder": Kind("REMAINDER", "remainder", FLOATS | WIDE),
    "fmod": Kind("FMOD", "fmod", FLOATS | {I32}),
    "atan2": Kind("ATAN2", "atan2"),
    "gcd": Kind("GCD", "gcd", frozenset({I32})),
    "lcm": Kind("LCM", "lcm", frozenset({I32})),
    "bitwise_and": Kind("BITWISE_AND", "bitwise_and", WHOLE),
    "bitwise_or": Kind("BITWISE_OR", "bitwise_or", WHOLE),
    "bitwise_xor": Kind("BITWISE_XOR", "bitwise_xor", WHOLE),
    "bitwise_left_shift": Kind("LEFT_SHIFT", "left_shift", WHOLE),
    "bitwise_right_shift": Kind("RIGHT_SHIFT", "right_shift", WHOLE),
}

BY_NAME = {kind.name: kind for kind in (*KINDS.values(), DIV_FLOOR, DIV_TRUNC, POWER)}
"""By the names that programs have."""
