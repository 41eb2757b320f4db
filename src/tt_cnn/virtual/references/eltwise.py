# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tt_cnn.virtual.numerics.gelu import gelu
from tt_cnn.virtual.ops.eltwise import native
from tt_cnn.virtual.ops.eltwise.activations import Kernel, kernel_of
from tt_cnn.virtual.ops.eltwise.binary import Binary
from tt_cnn.virtual.ops.eltwise.calls import PLACEMENT
from tt_cnn.virtual.ops.eltwise.unary import Unary
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.references.registry import GOLDEN, Golden, golden
from tt_cnn.virtual.types.unary import activation

_PLACES = {parameter.name for parameter in PLACEMENT}


def activated(x: Tensor, given: Any) -> Tensor:
    """After an activation as TT-NN takes it: a name, a UnaryOpType, a UnaryWithParam, or None."""
    chosen = activation(given)
    return x if chosen is None else apply(kernel_of(chosen), x)


def apply(kernel: Kernel, x: Tensor) -> Tensor:
    return native.UNARY[kernel.name](x, *kernel.params)


def _unary(operation: Unary) -> Callable[..., Tensor]:
    """The chain of functions that the op's own parameters name."""

    def function(input_tensor: Tensor, **parameters: Any) -> Tensor:
        own = {name: value for name, value in parameters.items() if name not in _PLACES}
        return apply(type(operation).make_kernel(**own), input_tensor)

    return function


def _binary(operation: Binary) -> Callable[..., Tensor]:
    def function(**arguments: Any) -> Tensor:
        a, b, *_ = arguments.values()
        a = _all(_tensor(a, b), arguments.get("input_tensor_a_activations"))
        b = _all(_tensor(b, a), arguments.get("input_tensor_b_activations"))
        result = native.BINARY[operation.kind.kernel](a, b)
        rounding = arguments.get("rounding_mode")
        if rounding is not None:
            result = native.UNARY[rounding](result)
        return _all(result, arguments.get("activations"))

    return function


def _tensor(value: Any, other: Any) -> Tensor:
    return value if isinstance(value, Tensor) else torch.tensor(value, dtype=other.dtype)


def _all(x: Tensor, activations: Sequence[Any] | None) -> Tensor:
    for one in activations or ():
        x = activated(x, one)
    return x


@golden("gelu")
def _gelu(input_tensor: Tensor, variant: Any = None, **_: Any) -> Tensor:
    return gelu(input_tensor, "tanh" if variant is not None and variant.name == "Tanh" else "none")


@golden("where")
def _where(**arguments: Any) -> Tensor:
    condition, yes, no, *_ = arguments.values()
    return torch.where(condition != 0, yes, no)


@golden("addcmul")
def _addcmul(input_a: Tensor, input_b: Tensor, input_c: Tensor, value: float = 1.0, **_: Any) -> Tensor:
    return input_a + value * input_b * input_c


@golden("addcdiv")
def _addcdiv(input_a: Tensor, input_b: Tensor, input_c: Tensor, value: float = 1.0, **_: Any) -> Tensor:
    return input_a + value * input_b / input_c


@golden("lerp")
def _lerp(input: Tensor, end: Tensor, weight: Any, **_: Any) -> Tensor:
    return input + weight * (end - input)


@golden("mac")
def _mac(input_tensor_a: Tensor, input_tensor_b: Any, input_tensor_c: Any, **_: Any) -> Tensor:
    return input_tensor_a * input_tensor_b + input_tensor_c


@golden("addalpha")
def _addalpha(input_tensor_a: Tensor, input_tensor_b: Tensor, alpha: float, **_: Any) -> Tensor:
    return torch.add(input_tensor_a, input_tensor_b, alpha=alpha)


@golden("subalpha")
def _subalpha(input_tensor_a: Tensor, input_tensor_b: Tensor, alpha: float, **_: Any) -> Tensor:
    return torch.sub(input_tensor_a, input_tensor_b, alpha=alpha)


@golden("floor_div")
def _floor_div(input_tensor_a: Tensor, input_tensor_b: Any, **_: Any) -> Tensor:
    return torch.floor_divide(input_tensor_a, input_tensor_b)


_GATES: dict[str, Callable[..., Tensor]] = {"glu": torch.sigmoid, "reglu": F.relu, "swiglu": F.silu, "geglu": F.gelu}


def _gated(gate: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(input_tensor: Tensor, variant: Any = None, **_: Any) -> Tensor:
        left, right = input_tensor.chunk(2, -1)
        tanh = variant is not None and variant.name == "Tanh"
        return left * (gate(right, approximate="tanh") if tanh else gate(right))

    return function


for _name, _gate in _GATES.items():
    golden(_name)(_gated(_gate))


@golden("pow")
def _pow(**arguments: Any) -> Tensor:
    base, exponent, *_ = arguments.values()
    return torch.pow(base, exponent)


@golden("prelu")
def _prelu(**arguments: Any) -> Tensor:
    x, slope, *_ = arguments.values()
    return torch.where(x > 0, x, x * slope)


for _name, _operation in list(OPERATIONS.items()):
    if _name in GOLDEN:
        continue
    if isinstance(_operation, Unary) and hasattr(type(_operation), "make_kernel"):
        GOLDEN[_name] = Golden(_operation, _unary(_operation))
    elif isinstance(_operation, Binary) and _operation.kind.kernel in native.BINARY:
        GOLDEN[_name] = Golden(_operation, _binary(_operation))
