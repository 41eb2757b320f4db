# SPDX-License-Identifier: Apache-2.0
"""Fused activations: which kernel a `UnaryOpType` with parameters runs, and how its parameters are meant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.unary import UnaryOpType

Activation = tuple[UnaryOpType, tuple[float, ...]]


@dataclass(frozen=True)
class Kernel:
    """A kernel of the vector unit by the name of `numerics.vector_unit`, with its parameters."""

    name: str
    params: tuple[float, ...] = ()
    approx: bool = False
    half: bool = False
    """Of each tile only the left half is computed; the rest stays as it was."""


def _fast(name: str) -> Callable[..., Kernel]:
    """The first parameter asks for the approximate variant."""
    return lambda fast=0.0, *_: Kernel(name, (), bool(fast))


def _gelu(variant: float = 0.0, *_: float) -> Kernel:
    return Kernel("gelu", (), bool(variant))


_WHOLE_TILE = 4.0


def _sigmoid(vector_mode: float = _WHOLE_TILE, mode: float = 2.0, *_: float) -> Kernel:
    """SigmoidMode.FastApproximate is 0; AccurateWithFastExp is the chain with the fast exponential."""
    refuse_unfollowed("UnaryWithParam", vector_mode=None if vector_mode == _WHOLE_TILE else vector_mode)
    if mode == 0:
        return Kernel("sigmoid", (), True)
    return Kernel("sigmoid_accurate", (), True) if mode == 1 else Kernel("sigmoid")


def _rounded(*params: float) -> Kernel:
    return Kernel("round", tuple(int(p) for p in params))


_SPECIAL: dict[UnaryOpType, Callable[..., Kernel]] = {
    UnaryOpType.EXP: _fast("exp"),
    UnaryOpType.ERF: _fast("erf"),
    UnaryOpType.GELU: _gelu,
    UnaryOpType.LOG: _fast("log"),
    UnaryOpType.LOG1P: _fast("log1p"),
    UnaryOpType.LOG2: _fast("log2"),
    UnaryOpType.LOG10: _fast("log10"),
    UnaryOpType.MISH: _fast("mish"),
    UnaryOpType.RSQRT: _fast("rsqrt"),
    UnaryOpType.SQRT: _fast("sqrt"),
    UnaryOpType.TANH: _fast("tanh"),
    UnaryOpType.SIGMOID: _sigmoid,
    UnaryOpType.ROUND: _rounded,
}
_RENAMED: dict[UnaryOpType, str] = {
    UnaryOpType.RECIP: "reciprocal",
    UnaryOpType.ADD_UNARY_SFPU: "add_unary",
    UnaryOpType.SUB_UNARY_SFPU: "sub_unary",
    UnaryOpType.MUL_UNARY_SFPU: "mul_unary",
    UnaryOpType.DIV_UNARY_SFPU: "div_unary",
    UnaryOpType.LOGICAL_NOT_UNARY: "logical_not",
    UnaryOpType.PRELU_SFPU: "prelu",
    UnaryOpType.CLAMP_TSS: "clamp",
    UnaryOpType.LOGSIGMOID: "log_sigmoid",
    UnaryOpType.MAXIMUM: "maximum_unary",
    UnaryOpType.MINIMUM: "minimum_unary",
    UnaryOpType.POWER: "pow",
    UnaryOpType.REMAINDER: "remainder_unary",
    UnaryOpType.FMOD: "fmod_unary",
}


_NEED_NUMBERS = frozenset(
    """
    ADD_UNARY_SFPU BITWISE_AND BITWISE_OR BITWISE_XOR CELU CLAMP_TSS DIV_UNARY_SFPU DROPOUT ELU FILL FMOD
    HARDSHRINK HARDTANH HEAVISIDE LEAKY_RELU LEFT_SHIFT LOGIT MAC_TSS MAXIMUM MINIMUM MISH MUL_UNARY_SFPU
    POLYGAMMA POWER POWER_ITERATIVE PRELU_SFPU RDIV RELU_MAX RELU_MIN REMAINDER RIGHT_SHIFT ROUND RPOW RSUB
    SELU SOFTCAP SOFTPLUS SOFTSHRINK SUB_UNARY_SFPU THRESHOLD TYPECAST UNARY_EQ UNARY_GE UNARY_GT UNARY_LE
    UNARY_LT UNARY_NE WHERE_TSS XIELU
""".split()  # noqa: SIM905  # short lines
)
"""Of all types those that the real library refuses without numbers, asked for each in a sum of two tensors."""


def check_given(activations: Iterable[Activation]) -> None:
    """A kernel that applies activations is written with their numbers in it; without those there is none."""
    for op_type, params in activations:
        fatal(
            bool(params) or op_type.name not in _NEED_NUMBERS,
            f"Undefined non-parametrized op type {op_type.native}",
            f"  give its numbers: ttnn.UnaryWithParam(ttnn.UnaryOpType.{op_type.name}, ...)",
        )


def kernel_of(activation: Activation) -> Kernel:
    op_type, params = activation
    if op_type in _SPECIAL:
        return _SPECIAL[op_type](*params)
    return Kernel(_RENAMED.get(op_type, op_type.name.lower()), tuple(params))
