# SPDX-License-Identifier: Apache-2.0
"""Rounding to block formats where most blocks are zeros, as in prepared weights of depthwise convolutions."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.numerics import host_round
from tt_cnn.virtual.types.enums import DataType


@pytest.mark.parametrize("dtype", [DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_zeros_around_blocks_change_nothing(dtype: DataType) -> None:
    torch.manual_seed(0)
    full = torch.randn(8, 64)
    full[0, 0], full[1, 16], full[2, 40] = float("inf"), float("nan"), -0.0
    full[3, :16] = 1e-42  # no normal number
    sparse = torch.zeros(64, 64)
    sparse[::8] = full
    found = host_round(sparse, dtype)
    assert torch.equal(found[::8].nan_to_num(7.0), host_round(full, dtype).nan_to_num(7.0))
    found[::8] = 0
    assert not found.any()
