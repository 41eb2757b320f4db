# SPDX-License-Identifier: Apache-2.0
"""`typecast`: conversions on the card, between float formats by the packer, from and to integers by the vector unit.

Rules of the kernels (TT-NN 0.81.1); those between float formats agree with the recordings, the rest follow the source:

* to UINT16: negative values are 0, the rest is rounded with ties away from zero and saturates at 65535;
* to INT32: cut toward zero, saturating; to UINT32: the same, negative values 0; to UINT8: cut, then the low 8 bits;
* FLOAT32 to a narrower float rounds to bfloat16 with ties to even first;
* integers to float32 round to nearest even, and from there to bfloat16 with ties away from zero.

BFLOAT8_B is packed precisely here, BFLOAT4_B is not (see `packer`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from tt_cnn.virtual.numerics.formats import INTEGER_CARRIERS
from tt_cnn.virtual.numerics.packer import pack
from tt_cnn.virtual.numerics.vector_unit.lanes import to_nearest_integer
from tt_cnn.virtual.numerics.vector_unit.unit import round_to_bfloat16, round_to_bfloat16_even
from tt_cnn.virtual.types.enums import DataType

_CUT = {DataType.INT32: (-(2**31), 2**31 - 1), DataType.UINT32: (0, 2**32 - 1)}


def typecast(x: Tensor, from_dtype: DataType, to_dtype: DataType) -> Tensor:
    """Values of `from_dtype` (in their carrier) as values of `to_dtype` (in theirs)."""
    if from_dtype in INTEGER_CARRIERS:
        return _from_integer(x, to_dtype)
    if to_dtype in INTEGER_CARRIERS:
        return _to_integer(x, to_dtype)
    if from_dtype is DataType.FLOAT32 and to_dtype is not DataType.FLOAT32:
        x = round_to_bfloat16_even(x)
    return pack(x, to_dtype, precise=to_dtype is DataType.BFLOAT8_B)


def _to_integer(x: Tensor, dtype: DataType) -> Tensor:
    carrier = INTEGER_CARRIERS[dtype]
    if dtype is DataType.UINT16:
        return to_nearest_integer(x.clamp(min=0.0), 65535).to(carrier)
    wide = x.nan_to_num(posinf=2.0**62, neginf=-(2.0**62)).clamp(-(2.0**62), 2.0**62).to(torch.int64)
    if dtype in _CUT:
        return wide.clamp(*_CUT[dtype]).to(carrier)
    low = wide & 0xFF
    return (torch.where(low > 127, low - 256, low) if dtype is DataType.INT8 else low).to(carrier)


def _from_integer(x: Tensor, to_dtype: DataType) -> Tensor:
    if to_dtype in INTEGER_CARRIERS:
        return _between_integers(x, to_dtype)
    value = x.to(torch.float64).to(torch.float32)
    if to_dtype is DataType.FLOAT32:
        return value
    return pack(round_to_bfloat16(value), to_dtype, precise=to_dtype is DataType.BFLOAT8_B)


def _between_integers(x: Tensor, to_dtype: DataType) -> Tensor:
    wide = x.to(torch.int64)
    if to_dtype is DataType.UINT16:
        return wide.clamp(0, 65535).to(INTEGER_CARRIERS[to_dtype])
    bits = {DataType.UINT8: 8, DataType.INT8: 8}.get(to_dtype, 32)
    low = wide & ((1 << bits) - 1)
    if to_dtype in (DataType.INT8, DataType.INT32):
        low = torch.where(low >= 1 << (bits - 1), low - (1 << bits), low)
    return low.to(INTEGER_CARRIERS[to_dtype])
