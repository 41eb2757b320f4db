# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops that are calls of other ops: floor_div, and the gated units glu, reglu, geglu and swiglu."""

from __future__ import annotations

import math
from typing import Any

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.eltwise.calls import (
    MEMORY_CONFIG,
    is_number,
    keyword,
    positional,
    require_tensor,
    with_signature,
    wrong_types,
)
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation, op
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import GeluVariant
from tt_cnn.virtual.types.geometry import TILE_SIZE
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.unary import UnaryOpType


@op("floor_div")
class FloorDiv(Operation):
    """`ttnn.floor_div`: a quotient rounded down; where it is infinite or no number, the quotient."""

    arguments = with_signature(positional("input_tensor_a"), positional("input_tensor_b"), MEMORY_CONFIG)

    def make_call(self, input_tensor_a: Any, input_tensor_b: Any, memory_config: Any = None) -> Call:
        operands = (require_tensor(self, input_tensor_a, input_tensor_b), input_tensor_b)
        if not (isinstance(input_tensor_b, Tensor) or is_number(input_tensor_b)):
            raise wrong_types(self, operands)
        call = Call([one for one in operands if isinstance(one, Tensor)], memory_config=memory_config)
        call.attributes["divisor"] = input_tensor_b
        return call

    def shortcut(self, call: Call) -> Any:
        a, b, config = call.tensors[0], call.attributes["divisor"], call.attributes["memory_config"]
        do = OPERATIONS
        if not isinstance(b, Tensor):
            return _by_scalar(a, float(b), config)
        quotient = do["divide"](a, b, memory_config=config)
        whole = do["divide"](a, b, rounding_mode="floor", memory_config=config)
        return do["where"](_unlike_numbers(quotient), quotient, whole, memory_config=config)


def _unlike_numbers(x: Tensor) -> Tensor:
    """One where a value is infinite or no number. The graph shows one unary step, not which kernels it runs."""
    return OPERATIONS["unary_chain"](x, [UnaryOpType.ISFINITE, UnaryOpType.LOGICAL_NOT_UNARY])


def _by_scalar(a: Tensor, divisor: float, config: MemoryConfig | None) -> Tensor:
    """Nothing is divided by zero: what would be is infinite by its sign, or no number."""
    do = OPERATIONS
    if divisor != 0.0:
        return do["floor"](do["multiply"](a, 1.0 / divisor, memory_config=config), memory_config=config)
    zero = do["eqz"](a, memory_config=config)
    sign = do["sign"](a, memory_config=config)
    infinite = do["multiply"](sign, math.inf, memory_config=config)
    return do["where"](zero, math.nan, infinite, memory_config=config)


class Gated(Operation):
    """The left half of the channels, multiplied with what the gate makes of the right half."""

    gate = ""
    """The op of the right half."""
    arguments = with_signature(positional("input_tensor"), positional("dim", -1), MEMORY_CONFIG)

    def make_call(self, input_tensor: Any, dim: int = -1, memory_config: Any = None, **options: Any) -> Call:
        if isinstance(dim, bool) or not isinstance(dim, int):
            raise wrong_types(self, (input_tensor, dim))
        call = Call([require_tensor(self, input_tensor)], dim=dim, memory_config=memory_config)
        call.attributes["options"] = options
        return call

    def shortcut(self, call: Call) -> Any:
        (x,), config = call.tensors, call.attributes["memory_config"]
        left, right = _halves(x, call.attributes["dim"], config)
        gated = OPERATIONS[self.gate](right, memory_config=config, **call.attributes["options"])
        return OPERATIONS["multiply"](left, gated, memory_config=config)


def _halves(x: Tensor, dim: int, config: MemoryConfig | None) -> list[Tensor]:
    """Both halves of the last dimension with all its padding, which the results have as rows and channels."""
    fatal(dim in (-1, 3), f"glu-family ops only support the last dimension, got dim={dim}")
    shape, rank = x.padded_shape, len(x.shape)
    fatal(rank > 3, f"ShapeBase[] index out of range. 3 not in [-4, {rank})")
    half = shape[3] // 2
    fatal(half % TILE_SIZE == 0, "Split tensor dimension should be in full tile")
    whole = Tensor.on_device(x.spec.with_(shape=shape), x.buffer("glu"))
    before = [0, 0, 0]
    ends = list(shape)[:3]
    return [
        OPERATIONS["slice"](whole, [*before, start], [*ends, start + half], [1] * 4, memory_config=config)
        for start in (0, half)
    ]


@op("glu")
class Glu(Gated):
    """`ttnn.glu`"""

    gate = "sigmoid"


@op("reglu")
class Reglu(Gated):
    """`ttnn.reglu`"""

    gate = "relu"


@op("swiglu")
class Swiglu(Gated):
    """`ttnn.swiglu`"""

    gate = "silu"


@op("geglu")
class Geglu(Gated):
    """`ttnn.geglu`"""

    gate = "gelu"
    arguments = with_signature(
        positional("input_tensor"), positional("dim", -1), MEMORY_CONFIG, keyword("variant", GeluVariant.Accurate)
    )

    def make_call(self, variant: GeluVariant = GeluVariant.Accurate, **options: Any) -> Call:  # type: ignore[override]
        return super().make_call(**options, variant=variant)
