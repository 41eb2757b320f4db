# SPDX-License-Identifier: Apache-2.0
"""Values of element-wise ops under the card's numerics, from and to carriers of any dtype."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from tt_cnn.virtual import numerics
from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.numerics import VectorUnit
from tt_cnn.virtual.numerics.formats import to_integer
from tt_cnn.virtual.numerics.vector_unit.unit import float32
from tt_cnn.virtual.ops.eltwise import native
from tt_cnn.virtual.ops.eltwise.activations import Activation, Kernel, kernel_of
from tt_cnn.virtual.tensors.conversion import as_stored, pad_to
from tt_cnn.virtual.tensors.storage import CARRIER
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_OF_INTEGERS = ("bitwise_not",)
"""TT-NN plans these for floats too, but documents them for integers alone: what a kernel makes of floats is unknown."""
_IDENTICAL_ON_MAXIMUM = {"maximum_unary": "maximum", "minimum_unary": "minimum"}


def unit_for(engine: Engine, fp32_dest: bool, approx: bool = False) -> VectorUnit:
    return VectorUnit(fp32_dest=fp32_dest, fp32_input=fp32_dest, approx=approx, exact=engine.numerics == "exact")


def check_numbers(chain: Iterable[Kernel], dtype: DataType) -> None:
    """Refuse kernels whose numbers are unknown, though TT-NN accepts the call."""
    for kernel in chain:
        fatal(
            not dtype.is_float or kernel.name not in _OF_INTEGERS,
            f"{kernel.name} has no numbers for floats: TT-NN accepts the call, but documents the op for integers "
            "alone.",
            "  typecast to int32 first",
        )


def unary_register(
    engine: Engine, name: str, x: Tensor, params: Sequence[float], *, fp32_dest: bool, approx: bool = False
) -> Tensor:
    """Register values after a unary kernel; plain torch where numerics is `native`."""
    if engine.numerics == "native":
        return native.UNARY[name](x, *params)
    unit = unit_for(engine, fp32_dest, approx)
    if name == "fill":
        return unit.store(torch.full_like(x, float32(params[0])))
    if name in _IDENTICAL_ON_MAXIMUM:
        bound = torch.full_like(x, params[0])
        return numerics.run_binary(_IDENTICAL_ON_MAXIMUM[name], x, bound, unit=unit)
    return numerics.unary_register(name, x, *params, unit=unit)


def apply_activation(engine: Engine, x: Tensor, activation: Activation, *, fp32_dest: bool = False) -> Tensor:
    """A fused activation on register values, as conv, matmul and binary ops apply it before packing.

    `activation` is (UnaryOpType, parameters), as `types.unary.activation` makes it of a UnaryWithParam.
    """
    kernel = kernel_of(activation)
    return unary_register(engine, kernel.name, x, kernel.params, fp32_dest=fp32_dest, approx=kernel.approx)


def integer_unary(name: str, x: Tensor, params: Sequence[float], dtype: DataType) -> Tensor:
    """Integers go through the vector unit unchanged in width; results wrap as the dtype does."""
    wide = x.to(torch.int64)
    stored = [p if p is None or abs(p) < 2**62 else as_stored(p, dtype) for p in params]  # not of infinities either
    whole = [int(p) if isinstance(p, float) and p.is_integer() else p for p in stored]
    return as_integer(native.UNARY[name](wide, *whole), dtype)


def as_integer(value: Tensor, dtype: DataType) -> Tensor:
    return to_integer(value, dtype).to(CARRIER[dtype])


def operand_in(value: Tensor, spec: Spec, shape: Shape, padded: Shape) -> Tensor:
    """An operand's padded values ready to broadcast: dimensions of size 1 are cut to their first row or column."""
    rank = len(padded)
    value = value.reshape((1,) * (rank - value.dim()) + tuple(value.shape))
    logical = (1,) * (rank - len(spec.shape)) + tuple(spec.shape)
    target = (1,) * (rank - len(shape)) + tuple(shape)
    spread = [own == 1 and wanted != 1 for own, wanted in zip(logical, target, strict=False)]
    if rank == len(logical) and logical[-2:] == (1, 1) and any(spread[-2:]):
        spread[-2:] = [True, True]  # a single element fills whole tiles, their padding too
    value = value[tuple(slice(0, 1) if over else slice(0, size) for over, size in zip(spread, padded, strict=True))]
    return pad_to(value, [1 if over else size for over, size in zip(spread, padded, strict=True)])
