# SPDX-License-Identifier: Apache-2.0
"""Math fidelity: which bits of its operands the matrix unit multiplies.

The multiplier takes 5 significant bits of source A and 7 of source B at a time. `MathFidelity` says how many of the
four combinations of high and low parts ("phases") are worked through, in this order:

    LoFi   high A * high B
    HiFi2  + low A * high B
    HiFi3  + high A * low B
    HiFi4  + low A * low B

Source A is the first operand of an element-wise op and the *weights* (second operand) of a matrix product.
"""

from __future__ import annotations

from torch import Tensor

from tt_cnn.virtual.numerics.bits import flush_denormals, keep_mantissa
from tt_cnn.virtual.types.enums import DataType, MathFidelity

SOURCE_MANTISSA_BITS = 10
"""What a source register holds of float32: the unpacker cuts the rest off (TF32)."""

HIGH_BITS_A, ALL_BITS_A = 4, 9
HIGH_BITS_B, ALL_BITS_B = 6, 10
PHASES = ((0, 0), (1, 0), (0, 1), (1, 1))
"""(part of A, part of B) of each phase, 0 the high one."""

_PHASE_COUNT = {
    MathFidelity.LoFi: 1,
    MathFidelity.HiFi2: 2,
    MathFidelity.HiFi3: 3,
    MathFidelity.HiFi4: 4,
    MathFidelity.Invalid: 2,  # a config that says nothing is taken; what the card makes of it is not recorded
}


def to_source(x: Tensor, dtype: DataType) -> Tensor:
    """Values of a tile as the unpacker puts them into a source register: 16-bit formats whole, float32 as TF32."""
    x = flush_denormals(x.contiguous())
    return keep_mantissa(x, SOURCE_MANTISSA_BITS) if dtype is DataType.FLOAT32 else x


def split_a(x: Tensor) -> tuple[Tensor, Tensor]:
    """Source A as (high, low): the leading one with 4 bits, and the next 5. The last bit of TF32 is never used."""
    return _split(x, HIGH_BITS_A, ALL_BITS_A)


def split_b(x: Tensor) -> tuple[Tensor, Tensor]:
    """Source B as (high, low): the leading one with 6 bits, and the next 4."""
    return _split(x, HIGH_BITS_B, ALL_BITS_B)


def _split(x: Tensor, high_bits: int, all_bits: int) -> tuple[Tensor, Tensor]:
    x = x.contiguous()
    high = keep_mantissa(x, high_bits)
    return high, keep_mantissa(x, all_bits) - high


def phases_of(fidelity: MathFidelity) -> tuple[tuple[int, int], ...]:
    """The phases a fidelity works through, in order."""
    return PHASES[: _PHASE_COUNT[fidelity]]


def phases(a: Tensor, b: Tensor, fidelity: MathFidelity) -> list[tuple[Tensor, Tensor]]:
    """The operand pairs whose products are added up, in order; `a` is source A and `b` source B."""
    parts_a, parts_b = split_a(a), split_b(b)
    return [(parts_a[i], parts_b[j]) for i, j in phases_of(fidelity)]


def effective_operands(a: Tensor, b: Tensor, fidelity: MathFidelity) -> tuple[Tensor, Tensor] | None:
    """One operand pair with the product of all phases where such exists (all but HiFi3), else None.

    LoFi and HiFi2 use only part of an operand; HiFi4 uses all of both.
    """
    if fidelity is MathFidelity.HiFi3:
        return None
    a = keep_mantissa(a.contiguous(), HIGH_BITS_A if fidelity is MathFidelity.LoFi else ALL_BITS_A)
    return a, keep_mantissa(b.contiguous(), ALL_BITS_B if fidelity is MathFidelity.HiFi4 else HIGH_BITS_B)
