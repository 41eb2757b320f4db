# SPDX-License-Identifier: Apache-2.0
"""The packer's rules, each with an input that tells it from its neighbours."""

from __future__ import annotations

import math

import pytest
import torch

from tt_cnn.virtual.numerics import host_round, pack
from tt_cnn.virtual.types.enums import DataType

ULP = 2.0**-7


def block(*values: float) -> torch.Tensor:
    return torch.tensor([[*values, *([0.0] * (16 - len(values)))]])


def test_bfloat16_rounds_ties_away_from_zero() -> None:
    tie = 1 + ULP / 2  # the host would go to 1.0, the even neighbour
    assert host_round(torch.tensor([tie]), DataType.BFLOAT16).item() == 1.0
    assert pack(torch.tensor([tie, -tie]), DataType.BFLOAT16).tolist() == [1 + ULP, -1 - ULP]


def test_bfloat16_specials() -> None:
    x = torch.tensor([-0.0, 1e-40, -1e-40, math.inf, -math.inf, math.nan, 3.4028e38])
    packed = pack(x, DataType.BFLOAT16)
    assert packed.tolist() == [0.0, 0.0, 0.0, math.inf, -math.inf, math.inf, math.inf]
    assert not torch.signbit(packed[:3]).any()


def test_bfloat8_rounds_twice_unless_precise() -> None:
    """15.4375 quanta: to 7 significant bits it is 15.5, and that goes up (recorded: typecast to bfloat4_b)."""
    x = block(64.0, 15.4375) / 64
    assert pack(x, DataType.BFLOAT8_B)[0, 1].item() * 64 == 16
    assert pack(x, DataType.BFLOAT8_B, precise=True)[0, 1].item() * 64 == 15


def test_bfloat8_largest_value_carries_into_the_exponent_unless_precise() -> None:
    x = block(127.5) / 64
    assert pack(x, DataType.BFLOAT8_B)[0, 0].item() * 64 == 128
    assert pack(x, DataType.BFLOAT8_B, precise=True)[0, 0].item() * 64 == 127


def test_bfloat8_ties_go_away_from_zero() -> None:
    x = block(64.0, 2.5, -2.5) / 64
    assert (pack(x, DataType.BFLOAT8_B)[0, :3] * 64).tolist() == [64, 3, -3]


def test_bfloat4_cuts_after_rounding_to_seven_bits() -> None:
    x = block(64.0, 47.2, 47.6, -47.6) / 64
    assert (pack(x, DataType.BFLOAT4_B)[0, :4] * 64).tolist() == [64, 32, 48, -48]


@pytest.mark.parametrize("dtype", [DataType.BFLOAT8_B, DataType.BFLOAT4_B], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("precise", [False, True])
def test_infinity_takes_its_block(dtype: DataType, precise: bool) -> None:
    packed = pack(block(1.0, math.inf, -math.inf, math.nan, 5.0), dtype, precise=precise)
    assert packed[0, :5].tolist() == [0.0, math.inf, -math.inf, math.inf, 0.0]


@pytest.mark.parametrize("dtype", [DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_zeros_stay_zeros_without_sign(dtype: DataType) -> None:
    packed = pack(torch.full((2, 32), -0.0), dtype)
    assert packed.abs().max() == 0 and not torch.signbit(packed).any()


@pytest.mark.parametrize("dtype", [DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_packing_twice_changes_nothing(dtype: DataType) -> None:
    x = torch.randn(64, 64) * torch.logspace(-3, 3, 64)[:, None]
    once = pack(x, dtype)
    assert torch.equal(pack(once, dtype), once)
    assert not torch.equal(once, x)


@pytest.mark.parametrize("dtype", [DataType.BFLOAT16, DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_in_place_gives_the_same_and_out_of_place_keeps_the_input(dtype: DataType) -> None:
    x = torch.randn(8, 64)
    kept = x.clone()
    packed = pack(x, dtype)
    assert torch.equal(x, kept)
    assert torch.equal(pack(x, dtype, inplace=True), packed)


def test_float32_is_stored_whole() -> None:
    x = torch.randn(4, 16)
    assert torch.equal(pack(x, DataType.FLOAT32), x)


def test_what_no_packer_writes_is_refused() -> None:
    with pytest.raises(ValueError, match="INVALID"):
        pack(torch.zeros(16), DataType.INVALID)


@pytest.mark.parametrize("dtype", [DataType.BFLOAT8_B, DataType.BFLOAT4_B])
def test_error_is_at_most_a_quantum(dtype: DataType) -> None:
    """The quantum of the exponent after rounding: a value just below a power of two may have carried into the next."""
    x = torch.randn(256, 64)
    largest = x.view(-1, 16).abs().amax(-1, keepdim=True) * (1 + 2.0**-7)
    top = torch.exp2(torch.floor(torch.log2(largest)))
    quantum = top * (2.0**-6 if dtype is DataType.BFLOAT8_B else 2.0**-2)
    error = (pack(x, dtype).view(-1, 16) - x.view(-1, 16)).abs() / quantum
    assert 0.45 < float(error.max()) <= 1.0
