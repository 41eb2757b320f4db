# SPDX-License-Identifier: Apache-2.0
"""What reductions refuse, in the library's words."""

from __future__ import annotations

from collections.abc import Sequence

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

_DTYPES = (DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.UINT32, DataType.INT32)


def check_not_empty(shape: Shape, dims: Sequence[int]) -> None:
    """Nothing has no largest element."""
    for dim in dims:
        fatal(shape[dim] > 0, f"Expected reduction dim {dim} to have non-zero size")


def check_distinct(dims: Sequence[int]) -> None:
    """Of dimensions that are sorted."""
    for i, dim in enumerate(dims[1:]):
        fatal(
            dim != dims[i],
            f"reduce dim list contains a duplicate axis after sorting (indices {i} and {i + 1}, value {dim})",
        )


def check_dtype(spec: Spec, averages: bool) -> None:
    """Bytes are refused where padding would be filled or rows tilized, before the reduction itself looks."""
    dtype = spec.dtype
    if dtype is DataType.UINT8:
        fatal(spec.layout is Layout.TILE, "Can only tilize bfloat16/float32 or int32/uint32/uint16 or fp8_e4m3 tensors")
        fatal(spec.shape == spec.padded_shape, f"Unsupported datatype {dtype.native}")
    fatal(
        dtype in _DTYPES or 0 in spec.shape,
        "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction (INT32 is supported for "
        f"MAX/MIN/SUM) - got {dtype.native}.",
    )
    fatal(not averages or dtype.is_float, f"ttnn.mean does not support integer inputs - got {dtype.native}.")
