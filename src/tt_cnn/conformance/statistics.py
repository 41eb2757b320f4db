# SPDX-License-Identifier: Apache-2.0
"""How far two sets of numbers are apart. NaN equals NaN, and infinities equal themselves."""

from __future__ import annotations

import torch


def same_numbers(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Every element equal."""
    return a.shape == b.shape and bool(((a == b) | (a.isnan() & b.isnan())).all())


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Every element equal, signs of zeros included; of NaNs only that they are NaN."""
    return same_numbers(a, b) and bool((torch.signbit(a) == torch.signbit(b))[~a.isnan()].all())


def same_specials(a: torch.Tensor, b: torch.Tensor) -> bool:
    """NaNs and infinities at the same places."""
    special = ~(a.isfinite() & b.isfinite())
    return same_numbers(a[special], b[special])


def rms(a: torch.Tensor, b: torch.Tensor) -> float:
    """Root mean square of the difference, over the elements that are finite in both."""
    finite = a.isfinite() & b.isfinite()
    if not bool(finite.any()):
        return 0.0
    return float((a[finite].double() - b[finite].double()).square().mean().sqrt())


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    """Pearson's correlation over the finite elements; constants agree when they are equal."""
    finite = a.isfinite() & b.isfinite()
    x, y = a[finite].double(), b[finite].double()
    if x.numel() < 2 or bool((x == x[0]).all()) or bool((y == y[0]).all()):
        return 1.0 if torch.allclose(x, y, rtol=1e-2, atol=1e-6) else 0.0
    x, y = x - x.mean(), y - y.mean()
    return float((x * y).sum() / (x.square().sum() * y.square().sum()).sqrt())
