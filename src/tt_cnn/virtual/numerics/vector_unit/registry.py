# SPDX-License-Identifier: Apache-2.0
"""Names of vector kernels, and how to run one.

A kernel takes the unit, the values loaded from the destination register and the op's parameters, and returns what it
stores back. Whoever defines one says how far it can be trusted:

* RECORDED: agrees with values recorded from the real kernel;
* SOURCE: follows the published kernel, not yet compared with a recording;
* IDEAL: the mathematical function in float32, rounded once; the real kernel's own error is not reproduced.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from tt_cnn.virtual.numerics.primitive import primitive
from tt_cnn.virtual.numerics.vector_unit.quick import HOST_FUNCTIONS
from tt_cnn.virtual.numerics.vector_unit.unit import VectorUnit

Kernel = Callable[..., Tensor]


class Trust(enum.Enum):
    RECORDED = "recorded"
    SOURCE = "source"
    IDEAL = "ideal"


@dataclass(frozen=True)
class Entry:
    name: str
    kernel: Kernel
    trust: Trust


_UNARY: dict[str, Entry] = {}
_BINARY: dict[str, Entry] = {}


def unary(*names: str, trust: Trust = Trust.SOURCE) -> Callable[[Kernel], Kernel]:
    """Register `kernel(unit, x, *params)` under TT-NN's name(s) of the op."""
    return _register(_UNARY, names, trust)


def binary(*names: str, trust: Trust = Trust.SOURCE) -> Callable[[Kernel], Kernel]:
    """Register `kernel(unit, a, b)` under TT-NN's name(s) of the op."""
    return _register(_BINARY, names, trust)


def _register(table: dict[str, Entry], names: tuple[str, ...], trust: Trust) -> Callable[[Kernel], Kernel]:
    def keep(kernel: Kernel) -> Kernel:
        for name in names:
            table[name] = Entry(name, kernel, trust)
        return kernel

    return keep


def unary_ops() -> dict[str, Entry]:
    return dict(_UNARY)


def binary_ops() -> dict[str, Entry]:
    return dict(_BINARY)


def run_unary(name: str, x: Tensor, *params: float, unit: VectorUnit | None = None) -> Tensor:
    """Destination values after the unary op: float32 holding bfloat16 values unless the register is float32."""
    return _unary(x, name=name, params=params, unit=unit or VectorUnit())


@primitive("unary")
def _unary(x: Tensor, *, name: str, params: tuple[float, ...], unit: VectorUnit) -> Tensor:
    if has_stand_in(name, unit):
        return unit.round(HOST_FUNCTIONS[name](x, *params))
    return unit.store(_UNARY[name].kernel(unit, unit.store(x), *params))


def has_stand_in(name: str, unit: VectorUnit) -> bool:
    """Whether the host's own function is run, and its result rounded once."""
    return not unit.exact and not unit.approx and name in HOST_FUNCTIONS


def run_binary(name: str, a: Tensor, b: Tensor, *, unit: VectorUnit | None = None) -> Tensor:
    """Destination values after the binary op on two loaded operands (broadcast beforehand or here)."""
    return _binary(a, b, name=name, unit=unit or VectorUnit())


@primitive("binary")
def _binary(a: Tensor, b: Tensor, *, name: str, unit: VectorUnit) -> Tensor:
    return unit.store(_BINARY[name].kernel(unit, unit.store(a), unit.store(b)))
