# SPDX-License-Identifier: Apache-2.0
"""Comparing tensors: Pearson correlation, closeness, units in the last place (`tests.ttnn.utils_for_testing`)."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn


def as_torch(tensor: Any) -> torch.Tensor:
    """A torch tensor of what is compared, be it a TT-NN tensor, a torch tensor or numbers."""
    if isinstance(tensor, ttnn.Tensor):
        return ttnn.to_torch(tensor)
    return tensor.detach() if isinstance(tensor, torch.Tensor) else torch.as_tensor(tensor)


def _exact(tensor: Any) -> torch.Tensor:
    """Values in a dtype in which sums are good enough."""
    value = as_torch(tensor)
    if value.is_complex():
        value = torch.view_as_real(value)
    return value.to(torch.float64)


def comp_pcc(
    golden: Any, calculated: Any, pcc: float = 0.99, rtol: float = 1e-5, atol: float = 1e-4
) -> tuple[bool, float]:
    """Whether the Pearson correlation is at least `pcc`, and what it is.

    A tensor that is constant has no correlation: there `rtol` and `atol` decide, and the number is 1 or 0. So it is
    with all-NaN tensors, which are equal only to each other. Single NaNs and infinities count as 0, two empty tensors
    as equal.
    """
    expected, actual = _exact(golden).flatten(), _exact(calculated).flatten()
    if expected.numel() != actual.numel():
        raise ValueError(f"{expected.numel()} values cannot be compared with {actual.numel()}")
    if expected.numel() == 0:
        return True, 1.0
    all_nan = [bool(each.isnan().all()) for each in (expected, actual)]
    if any(all_nan):
        return all(all_nan), float(all(all_nan))
    expected, actual = (torch.where(each.isfinite(), each, 0.0) for each in (expected, actual))
    if torch.equal(expected, actual):
        return True, 1.0
    if any(bool((each == each[0]).all()) for each in (expected, actual)):
        close = torch.allclose(expected, actual, rtol=rtol, atol=atol)
        return close, float(close)
    correlation = _pearson(expected, actual)
    return correlation >= pcc, correlation


def agreement(golden: Any, calculated: Any) -> float:
    """How near a model's output is to the reference's: the PCC, or, where it has none, 1 less the relative difference.

    An output of one value (a score, an angle), or one whose values are all alike, has no correlation. There the largest
    difference counts, relative to the reference's largest value.
    """
    expected, actual = _exact(golden).flatten(), _exact(calculated).flatten()
    correlation = comp_pcc(expected, actual, 0)[1]
    constant = expected.numel() > 0 and bool((expected == expected[0]).all())
    if not constant or not bool(actual.isfinite().all()) or bool(expected[0] == 0):
        return correlation
    return max(0.0, 1.0 - max_error(expected, actual) / abs(float(expected[0])))


def assert_agrees(expected: Any, actual: Any, least: float) -> float:
    """Fail unless shapes are equal and the `agreement` is at least `least`."""
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        raise AssertionError(_shapes(expected, actual))
    value = agreement(expected, actual)
    if not value >= least:
        raise AssertionError(f"PCC is {value}; it must be at least {least} ({_largest_difference(expected, actual)})")
    return value


def _pearson(x: torch.Tensor, y: torch.Tensor) -> float:
    """Scaled first, so that squares of the largest float32 numbers stay finite and of the smallest stay above 0."""
    x, y = (each / each.abs().max() for each in (x - x.mean(), y - y.mean()))
    return float((x @ y / (x.norm() * y.norm())).clamp(-1.0, 1.0))


def check_with_pcc(expected: Any, actual: Any, pcc: float = 0.9999) -> tuple[bool, str]:
    """Whether shapes are equal and the correlation is at least `pcc`; the reason or the number as a text."""
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        return False, _shapes(expected, actual)
    passed, value = comp_pcc(expected, actual, pcc)
    return passed, str(value)


def assert_with_pcc(expected: Any, actual: Any, pcc: float = 0.9999) -> tuple[bool, float]:
    """Fail unless shapes are equal and the correlation is at least `pcc`."""
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        raise AssertionError(_shapes(expected, actual))
    passed, value = comp_pcc(expected, actual, pcc)
    if not passed:
        raise AssertionError(f"PCC is {value}; it must be at least {pcc} ({_largest_difference(expected, actual)})")
    return passed, value


def assert_equal(expected: Any, actual: Any) -> tuple[bool, str]:
    """Fail unless shapes and all values are equal."""
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        raise AssertionError(_shapes(expected, actual))
    passed, message = comp_equal(expected, actual)
    if not passed:
        raise AssertionError(f"the tensors are not equal ({_largest_difference(expected, actual)})")
    return passed, message


def assert_allclose(expected: Any, actual: Any, rtol: float = 1e-5, atol: float = 1e-8) -> tuple[bool, str]:
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        raise AssertionError(_shapes(expected, actual))
    passed, message = comp_allclose(expected, actual, rtol, atol)
    if not passed:
        raise AssertionError(message)
    return passed, message


def assert_with_ulp(expected: Any, actual: Any, ulp_threshold: float = 10) -> tuple[bool, str]:
    """Fail where a value is more than `ulp_threshold` units in the last place (of the expected dtype) away."""
    expected, actual = as_torch(expected), as_torch(actual)
    if expected.shape != actual.shape:
        raise AssertionError(_shapes(expected, actual))
    passed, message = comp_ulp(expected, actual, ulp_threshold)
    if not passed:
        raise AssertionError(message)
    return passed, message


def comp_equal(golden: Any, calculated: Any) -> tuple[bool, str]:
    expected, actual = _exact(golden), _exact(calculated)
    both_nan = expected.isnan() & actual.isnan()
    return bool(((expected == actual) | both_nan).all()), _deltas(expected, actual)


def comp_allclose(golden: Any, calculated: Any, rtol: float = 1e-5, atol: float = 1e-8) -> tuple[bool, str]:
    expected, actual = _exact(golden), _exact(calculated)
    return torch.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True), _deltas(expected, actual)


def comp_allclose_and_pcc(
    golden: Any, calculated: Any, rtol: float = 1e-5, atol: float = 1e-8, pcc: float = 0.99
) -> tuple[bool, str]:
    close, message = comp_allclose(golden, calculated, rtol, atol)
    correlated, value = comp_pcc(golden, calculated, pcc)
    return close and correlated, f"{message}, PCC: {value}"


def comp_ulp(golden: Any, calculated: Any, ulp_threshold: float = 10) -> tuple[bool, str]:
    """Distance in units in the last place of the golden tensor's dtype."""
    expected = as_torch(golden)
    kind = expected.dtype if expected.is_floating_point() else torch.float32
    unit = unit_in_the_last_place(expected.to(kind))
    distance = ((_exact(calculated) - expected.to(torch.float64)) / unit.to(torch.float64)).abs()
    distance = torch.where(_exact(calculated) == expected.to(torch.float64), 0.0, distance)
    worst = float(distance.nan_to_num(nan=float("inf")).max()) if distance.numel() else 0.0
    return worst <= ulp_threshold, f"Max ULP Delta: {worst}"


def unit_in_the_last_place(value: torch.Tensor) -> torch.Tensor:
    """The gap between each number and the next one that its dtype holds."""
    finfo = torch.finfo(value.dtype)
    exponent = torch.floor(torch.log2(value.abs().to(torch.float64).clamp(finfo.tiny, finfo.max)))
    return torch.exp2(exponent) * finfo.eps


def max_error(expected: Any, actual: Any) -> float:
    """The largest difference; infinite where one is NaN and the other is not."""
    x, y = _exact(expected), _exact(actual)
    same = (x == y) | (x.isnan() & y.isnan())
    difference = torch.where(same, 0.0, (x - y).abs()).nan_to_num(nan=float("inf"), posinf=float("inf"))
    return float(difference.max()) if difference.numel() else 0.0


def _deltas(expected: torch.Tensor, actual: torch.Tensor) -> str:
    if expected.numel() == 0:
        return "Max ATOL Delta: 0.0, Max RTOL Delta: 0.0"
    difference = (expected - actual).abs()
    relative = (difference / actual.abs()).nan_to_num(nan=0.0)
    return f"Max ATOL Delta: {max_error(expected, actual)}, Max RTOL Delta: {float(relative.max())}"


def _largest_difference(expected: torch.Tensor, actual: torch.Tensor) -> str:
    return f"the largest difference is {max_error(expected, actual):g}"


def _shapes(expected: torch.Tensor, actual: torch.Tensor) -> str:
    return (
        f"list(expected_pytorch_result.shape)={list(expected.shape)} vs "
        f"list(actual_pytorch_result.shape)={list(actual.shape)}"
    )
