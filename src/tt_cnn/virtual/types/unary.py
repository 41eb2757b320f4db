# SPDX-License-Identifier: Apache-2.0
"""Unary ops by number, as fused activations name them."""

from __future__ import annotations

import ctypes
from typing import Any

from tt_cnn.virtual.types.enums import NativeEnum


class UnaryOpType(NativeEnum):
    EXP = 0
    RECIP = 1
    GELU = 2
    GELU_TANH = 3
    RELU = 4
    SQRT = 5
    SIGMOID = 6
    LOG = 7
    LOG1P = 8
    TANH = 9
    LOG2 = 10
    LOG10 = 11
    SIN = 12
    COS = 13
    COSH = 14
    SINH = 15
    ABS = 16
    ABS_INT32 = 17
    SIGN = 18
    SQUARE = 19
    EQZ = 20
    NEZ = 21
    GTZ = 22
    LTZ = 23
    GEZ = 24
    LEZ = 25
    RELU_MAX = 26
    RELU_MIN = 27
    POWER = 28
    POWER_ITERATIVE = 29
    LEAKY_RELU = 30
    ELU = 31
    EXP2 = 32
    HEAVISIDE = 33
    EXPM1 = 34
    SIGNBIT = 35
    ASIN = 36
    ACOS = 37
    ACOSH = 38
    RSQRT = 39
    RELU6 = 40
    ATAN = 41
    ASINH = 42
    ATANH = 43
    ERF = 44
    ERFC = 45
    ISINF = 46
    ISPOSINF = 47
    ISNEGINF = 48
    ISNAN = 49
    LOGICAL_NOT_UNARY = 50
    ISFINITE = 51
    ERFINV = 52
    I0 = 53
    I1 = 54
    TAN = 55
    RSUB = 56
    RDIV = 57
    SILU = 58
    SOFTPLUS = 59
    IDENTITY = 60
    NEG = 61
    ADD_UNARY_SFPU = 62
    SUB_UNARY_SFPU = 63
    MUL_UNARY_SFPU = 64
    DIV_UNARY_SFPU = 65
    UNARY_NE = 66
    UNARY_EQ = 67
    UNARY_GT = 68
    UNARY_LT = 69
    UNARY_GE = 70
    UNARY_LE = 71
    TILED_PROD = 72
    TYPECAST = 73
    BITCAST = 74
    BITWISE_XOR = 75
    BITWISE_NOT = 76
    BITWISE_AND = 77
    BITWISE_OR = 78
    RIGHT_SHIFT = 79
    FLOOR = 80
    CEIL = 81
    TRUNC = 82
    FRAC = 83
    ROUND = 84
    LEFT_SHIFT = 85
    REMAINDER = 86
    FMOD = 87
    DROPOUT = 88
    FILL = 89
    PRELU_SFPU = 90
    ZERO_POINT = 91
    ALT_COMPLEX_ROTATE90 = 92
    MISH = 93
    HARDMISH = 94
    MAXIMUM = 95
    MINIMUM = 96
    TANHSHRINK = 97
    THRESHOLD = 98
    SOFTSHRINK = 99
    HARDSHRINK = 100
    HARDTANH = 101
    HARDSIGMOID = 102
    HARDSWISH = 103
    WHERE_TSS = 104
    MAC_TSS = 105
    SOFTSIGN = 106
    CELU = 107
    CLAMP_TSS = 108
    SELU = 109
    RPOW = 110
    CBRT = 111
    LOGSIGMOID = 112
    LOGIT = 113
    XIELU = 114
    LGAMMA = 115
    DIGAMMA = 116
    POLYGAMMA = 117
    SOFTCAP = 118


def _float32(value: float) -> float:
    return ctypes.c_float(value).value


class UnaryWithParam:
    """An activation with its parameters, which are kept as float32. Compared by identity, as in TT-NN 0.81.1."""

    __slots__ = ("op_type", "params")

    def __init__(self, op_type: UnaryOpType | tuple[Any, ...], *params: float) -> None:
        if isinstance(op_type, (tuple, list)):
            op_type, *rest = op_type
            params = tuple(rest)
        if not isinstance(op_type, UnaryOpType):
            raise TypeError(f"op_type is {op_type!r}; it must be a ttnn.UnaryOpType")
        self.op_type = op_type
        self.params = [_float32(p) for p in params]

    def __repr__(self) -> str:
        params = f", params=[{', '.join(f'{p:g}' for p in self.params)}]" if self.params else ""
        return f"UnaryWithParam(op_type={self.op_type.native}{params})"


def activation(value: Any) -> tuple[UnaryOpType, tuple[float, ...]] | None:
    """An activation argument (UnaryWithParam, bare UnaryOpType, or one with a number) as a hashable pair."""
    if value is None:
        return None
    if isinstance(value, UnaryOpType):
        return value, ()
    if isinstance(value, UnaryWithParam):
        return value.op_type, tuple(value.params)
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], (bool, int, float)):
        return activation(UnaryWithParam(value))  # TT-NN makes one of the pair
    raise TypeError(f"an activation is {value!r}; it must be a ttnn.UnaryWithParam or a ttnn.UnaryOpType")
