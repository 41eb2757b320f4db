# SPDX-License-Identifier: Apache-2.0
"""Comparisons, their edge cases first."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tt_cnn import ttnn
from tt_cnn.testing import (
    agreement,
    assert_agrees,
    assert_allclose,
    assert_equal,
    assert_with_pcc,
    assert_with_ulp,
    check_with_pcc,
    comp_pcc,
)
from tt_cnn.testing.pcc import (
    comp_allclose,
    comp_allclose_and_pcc,
    comp_equal,
    comp_ulp,
    max_error,
    unit_in_the_last_place,
)

NAN, INF = math.nan, math.inf


@given(st.integers(0, 1000), st.floats(0, 2))
def test_the_correlation_is_numpys(seed: int, noise: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 25, generator=generator)
    y = x + noise * torch.randn(4, 25, generator=generator)
    expected = np.corrcoef(x.flatten().double().numpy(), y.flatten().double().numpy())[0, 1]
    passed, value = comp_pcc(x, y, 0.9)
    assert value == pytest.approx(expected, abs=1e-12) and passed == (value >= 0.9)


@pytest.mark.parametrize(
    ("golden", "calculated", "passed", "value"),
    [
        pytest.param([], [], True, 1.0, id="empty"),
        pytest.param([NAN, NAN], [NAN, NAN], True, 1.0, id="both all NaN"),
        pytest.param([NAN, NAN], [1.0, 2.0], False, 0.0, id="golden all NaN"),
        pytest.param([1.0, 2.0], [NAN, NAN], False, 0.0, id="calculated all NaN"),
        pytest.param([NAN, 1.0, 2.0], [NAN, 1.0, 2.0], True, 1.0, id="the same NaN"),
        pytest.param([INF, 1.0, 2.0], [0.0, 1.0, 2.0], True, 1.0, id="infinity counts as 0"),
        pytest.param([0.0, 0.0], [1.0, 2.0], False, 0.0, id="golden all zero"),
        pytest.param([0.0, 0.0], [1e-6, 2e-6], True, 1.0, id="zero, and close"),
        pytest.param([3.0, 3.0], [3.00001, 3.00002], True, 1.0, id="constant, and close"),
        pytest.param([3.0, 3.0], [4.0, 4.0], False, 0.0, id="both constant, not close"),
        pytest.param([5.0], [5.0], True, 1.0, id="one value"),
        pytest.param([5.0], [6.0], False, 0.0, id="one other value"),
        pytest.param([True, False], [True, False], True, 1.0, id="booleans"),
        pytest.param([1, 2, 3], [3, 2, 1], False, -1.0, id="whole numbers"),
        pytest.param([1j, 2.0, 3.0], [1j, 2.0, 3.0], True, 1.0, id="complex"),
    ],
)
def test_edges(golden: Any, calculated: Any, passed: bool, value: float) -> None:
    assert comp_pcc(torch.tensor(golden), torch.tensor(calculated)) == (passed, pytest.approx(value))


def test_huge_and_tiny_numbers_have_a_correlation() -> None:
    for size in (1e300, 1e-300):
        x = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64) * size
        assert comp_pcc(x, x * 0.5)[1] == pytest.approx(1.0)


def test_tensors_of_other_sizes_cannot_be_compared() -> None:
    with pytest.raises(ValueError, match="2 values cannot be compared with 3"):
        comp_pcc(torch.ones(2), torch.ones(3))


def test_assert_with_pcc_takes_tensors_of_both_kinds(card: Any) -> None:
    x = torch.randn(32, 32)
    on_card = ttnn.from_torch(x, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=card)
    passed, value = assert_with_pcc(x, on_card, 0.999)
    assert passed and 0.999 < value < 1
    with pytest.raises(AssertionError, match=r"PCC is .*; it must be at least 1\.0 \(the largest difference is"):
        assert_with_pcc(x, on_card, 1.0)
    with pytest.raises(
        AssertionError,
        match=r"list\(expected_pytorch_result.shape\)=\[32, 32\] vs list\(actual_pytorch_result.shape\)=\[1024\]",
    ):
        assert_with_pcc(x, x.flatten())


def test_check_with_pcc_gives_the_reason_and_does_not_fail() -> None:
    x = torch.arange(4.0)
    assert check_with_pcc(x, x) == (True, "1.0")
    assert check_with_pcc(x, -x) == (False, "-1.0")
    passed, reason = check_with_pcc(x, x[:2])
    assert not passed and "[4] vs" in reason


def test_equal() -> None:
    x = torch.tensor([1.0, NAN])
    assert assert_equal(x, x.clone())[0] and comp_equal(x, x)[0]
    with pytest.raises(AssertionError, match=r"not equal \(the largest difference is 1"):
        assert_equal(torch.ones(2), torch.tensor([1.0, 2.0]))
    for check in (assert_equal, assert_allclose, assert_with_ulp):
        with pytest.raises(AssertionError, match="expected_pytorch_result"):
            check(torch.ones(2), torch.ones(3))


def test_close() -> None:
    x = torch.tensor([1.0, 2.0])
    assert assert_allclose(x, x + 1e-7)[0]
    with pytest.raises(AssertionError, match=r"Max ATOL Delta: 1\.0, Max RTOL Delta: 0\.5"):
        assert_allclose(x, x + torch.tensor([1.0, 0.0]))
    assert comp_allclose(torch.ones(0), torch.ones(0)) == (True, "Max ATOL Delta: 0.0, Max RTOL Delta: 0.0")
    assert comp_allclose_and_pcc(x, x) == (True, "Max ATOL Delta: 0.0, Max RTOL Delta: 0.0, PCC: 1.0")
    assert not comp_allclose_and_pcc(x, x.flip(0))[0]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_units_in_the_last_place(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, 3.0, -1000.0, 0.0], dtype=dtype)
    following = torch.nextafter(x, torch.full_like(x, INF)) if dtype == torch.float32 else x + unit(x)
    assert assert_with_ulp(x[:3], following[:3], 1)[0]
    with pytest.raises(AssertionError, match="Max ULP Delta: 1"):
        assert_with_ulp(x[:2], following[:2], 0.5)
    assert comp_ulp(x, x) == (True, "Max ULP Delta: 0.0")
    assert comp_ulp(torch.ones(0), torch.ones(0))[0]
    assert not comp_ulp(x, torch.full_like(x, NAN))[0]
    assert comp_ulp(torch.tensor([4]), torch.tensor([4]))[0]


def unit(x: torch.Tensor) -> torch.Tensor:
    return unit_in_the_last_place(x).to(x.dtype)


def test_the_largest_error() -> None:
    assert max_error(torch.tensor([1.0, NAN, INF]), torch.tensor([3.0, NAN, INF])) == 2
    assert max_error(torch.tensor([1.0]), torch.tensor([NAN])) == INF
    assert max_error(torch.ones(0), torch.ones(0)) == 0
    assert max_error([1, 2], [1, 5]) == 3


@pytest.mark.parametrize(
    ("golden", "calculated", "value"),
    [
        ([2.0], [1.99], 0.995),
        ([2.0], [2.0], 1.0),
        ([-2.0, -2.0], [-2.0, -2.1], 0.95),
        ([1.0], [-5.0], 0.0),
        ([0.0], [1e-5], 1.0),
        ([0.0], [0.5], 0.0),
        ([1.0], [float("nan")], 0.0),
        ([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], 1.0),
        ([1.0, 2.0, 3.0], [5.0, 5.0, 5.0], 0.0),
    ],
)
def test_the_agreement_of_values_that_have_no_correlation(
    golden: list[float], calculated: list[float], value: float
) -> None:
    assert agreement(torch.tensor(golden), torch.tensor(calculated)) == pytest.approx(value)


def test_one_value_is_held_to_what_it_must_reach() -> None:
    assert_agrees(torch.tensor([[2.0]]), torch.tensor([[1.99]]), 0.99)
    with pytest.raises(AssertionError, match=r"0\.9"):
        assert_agrees(torch.tensor([[2.0]]), torch.tensor([[1.8]]), 0.99)
    with pytest.raises(AssertionError, match="shape"):
        assert_agrees(torch.tensor([[2.0]]), torch.tensor([2.0]), 0.99)
