# SPDX-License-Identifier: Apache-2.0
"""Conversions on the card from and to integers (those between float formats are in test_recorded)."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.numerics import typecast
from tt_cnn.virtual.types.enums import DataType

FLOATS = torch.tensor([2.5, -2.5, 300.0, 1e12, -1e12])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (DataType.UINT16, [3, 0, 300, 65535, 0]),
        (DataType.INT32, [2, -2, 300, 2**31 - 1, -(2**31)]),
        (DataType.UINT32, [2, 0, 300, 2**32 - 1, 0]),
        (DataType.UINT8, [2, 254, 44, 0, 0]),
    ],
    ids=lambda value: value.name if isinstance(value, DataType) else "",
)
def test_to_integers(dtype: DataType, expected: list[int]) -> None:
    assert typecast(FLOATS, DataType.FLOAT32, dtype).tolist() == expected


def test_from_integers_rounds_ties_away() -> None:
    x = torch.tensor([257, 259, -257], dtype=torch.int32)  # ties between neighbours 256, 258, 260
    assert typecast(x, DataType.INT32, DataType.BFLOAT16).tolist() == [258, 260, -258]
    assert typecast(x, DataType.INT32, DataType.FLOAT32).tolist() == [257, 259, -257]


def test_float32_to_bfloat16_rounds_ties_to_even() -> None:
    x = torch.tensor([257.0, 259.0, -257.0])
    assert typecast(x, DataType.FLOAT32, DataType.BFLOAT16).tolist() == [256, 260, -256]
