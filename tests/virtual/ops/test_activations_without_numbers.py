# SPDX-License-Identifier: Apache-2.0
"""Activations without their numbers, as TT-NN 0.81.1 takes and refuses them on a mocked n150.

Recorded of `ttnn.add(a, b, activations=[ttnn.UnaryWithParam(op_type)])` for every type; the same for activations of
operands, in `multiply`, in chains, and in convolutions that do not run as matmuls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.virtual import ttnn

TAKEN = """
    ABS ABS_INT32 ACOS ACOSH ALT_COMPLEX_ROTATE90 ASIN ASINH ATAN ATANH BITCAST BITWISE_NOT CBRT CEIL COS
    COSH DIGAMMA EQZ ERF ERFC ERFINV EXP EXP2 EXPM1 FLOOR FRAC GELU GELU_TANH GEZ GTZ HARDMISH HARDSIGMOID
    HARDSWISH I0 I1 IDENTITY ISFINITE ISINF ISNAN ISNEGINF ISPOSINF LEZ LGAMMA LOG LOG10 LOG1P LOG2
    LOGICAL_NOT_UNARY LOGSIGMOID LTZ NEG NEZ RECIP RELU RELU6 RSQRT SIGMOID SIGN SIGNBIT SILU SIN SINH
    SOFTSIGN SQRT SQUARE TAN TANH TANHSHRINK TILED_PROD TRUNC
""".split()  # noqa: SIM905  # short lines
REFUSED = """
    ADD_UNARY_SFPU BITWISE_AND BITWISE_OR BITWISE_XOR CELU CLAMP_TSS DIV_UNARY_SFPU DROPOUT ELU FILL FMOD
    HARDSHRINK HARDTANH HEAVISIDE LEAKY_RELU LEFT_SHIFT LOGIT MAC_TSS MAXIMUM MINIMUM MISH MUL_UNARY_SFPU
    POLYGAMMA POWER POWER_ITERATIVE PRELU_SFPU RDIV RELU_MAX RELU_MIN REMAINDER RIGHT_SHIFT ROUND RPOW RSUB
    SELU SOFTCAP SOFTPLUS SOFTSHRINK SUB_UNARY_SFPU THRESHOLD TYPECAST UNARY_EQ UNARY_GE UNARY_GT UNARY_LE
    UNARY_LT UNARY_NE WHERE_TSS XIELU
""".split()  # noqa: SIM905  # short lines


def tiles(card: PlanningCard) -> Any:
    return ttnn.allocate_tensor_on_device(ttnn.Shape([1, 1, 64, 64]), ttnn.bfloat16, ttnn.TILE_LAYOUT, card)


def convolved(card: PlanningCard, activation: Any) -> Any:
    return ttnn.conv2d(
        input_tensor=ttnn.allocate_tensor_on_device(
            ttnn.Shape([1, 1, 256, 32]), ttnn.bfloat16, ttnn.ROW_MAJOR_LAYOUT, card
        ),
        weight_tensor=ttnn.zeros([32, 32, 3, 3], dtype=ttnn.float32),
        device=card,
        in_channels=32,
        out_channels=32,
        batch_size=1,
        input_height=16,
        input_width=16,
        kernel_size=(3, 3),
        stride=(1, 1),
        padding=(1, 1),
        conv_config=ttnn.Conv2dConfig(activation=activation, shard_layout=ttnn.TensorMemoryLayout.HEIGHT_SHARDED),
        slice_config=ttnn.Conv2dL1FullSliceConfig,
    )


CALLS: dict[str, Callable[[PlanningCard, Any], Any]] = {
    "sum": lambda card, one: ttnn.add(tiles(card), tiles(card), activations=[one]),
    "operand": lambda card, one: ttnn.add(tiles(card), tiles(card), input_tensor_a_activations=[one]),
    "product": lambda card, one: ttnn.multiply(tiles(card), 2.0, activations=[one]),
    "chain": lambda card, one: ttnn.unary_chain(tiles(card), [one]),
    "convolution": convolved,
}


@pytest.mark.filterwarnings("ignore:.*which nothing has written")
@pytest.mark.parametrize("name", TAKEN)
def test_types_that_need_none(name: str) -> None:
    assert CALLS["sum"](PlanningCard("n150"), ttnn.UnaryWithParam(ttnn.UnaryOpType[name])) is not None


@pytest.mark.filterwarnings("ignore:.*which nothing has written")
@pytest.mark.parametrize("name", REFUSED)
def test_types_that_need_some(name: str) -> None:
    with pytest.raises(RuntimeError, match=f"Undefined non-parametrized op type UnaryOpType::{name}"):
        CALLS["sum"](PlanningCard("n150"), ttnn.UnaryWithParam(ttnn.UnaryOpType[name]))


@pytest.mark.filterwarnings("ignore:.*which nothing has written")
@pytest.mark.parametrize("name", ["MISH", "ELU"])
@pytest.mark.parametrize("call", CALLS)
def test_it_is_so_everywhere(call: str, name: str) -> None:
    op_type = ttnn.UnaryOpType[name]
    with pytest.raises(RuntimeError, match="Undefined non-parametrized op type"):
        CALLS[call](PlanningCard("n150"), ttnn.UnaryWithParam(op_type))
    assert CALLS[call](PlanningCard("n150"), ttnn.UnaryWithParam(op_type, 0.0)) is not None
