# SPDX-License-Identifier: Apache-2.0
"""Operands that binary ops convert before they start, because no kernel takes their dtypes together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tt_cnn.virtual.ops.eltwise.kinds import BF16, F32, I32, U8, U16, U32, Kind
from tt_cnn.virtual.types.enums import DataType
from tt_cnn.virtual.types.tensor_spec import Spec

_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


@dataclass(frozen=True)
class Promotion:
    """For each operand the dtype it is cast to, or None."""

    targets: tuple[DataType | None, ...]


def promotion(kind: Kind, operands: Sequence[Spec], scalar: float | None) -> Promotion:
    """Measured on 0.81.1: integers meet floats in `multiply` and `divide` only, bytes are compared as uint16."""
    dtypes = [spec.dtype for spec in operands]
    if kind.kernel in _COMPARISONS:
        return Promotion(tuple(U16 if d is U8 else None for d in dtypes))
    if kind.kernel not in ("mul", "div"):
        return Promotion((None,) * len(dtypes))
    whole = [d in (I32, U32) for d in dtypes]
    if scalar is not None:
        as_float = isinstance(scalar, float) or not -(2**31) <= scalar < 2**32  # the bindings have no wider integer
        return Promotion((F32 if whole[0] and as_float else None,))
    if whole[0] == whole[1]:
        return Promotion((None, None))
    other = dtypes[0] if whole[1] else dtypes[1]
    if not other.is_float:
        return Promotion((None, None))
    target = BF16 if other.is_block_float else other
    return Promotion(tuple(target if is_whole else None for is_whole in whole))
