# SPDX-License-Identifier: Apache-2.0
"""Numbers of 8 bits with 4 of exponent and 3 of mantissa, in units of a scale.

Scales are powers of two: multiplying by them is exact, and numbers with a mantissa lose nothing by the largest being
mapped to somewhere between 224 and 448 instead of onto 448.
"""

from __future__ import annotations

import math

import torch

from tt_cnn.virtual.engines.replay.graph import Node

E4M3 = torch.float8_e4m3fn
LARGEST = 448.0
PASSING = ("max_pool", "repeat", "cat")
"""They only move numbers, so they take and give those in units of the same scale."""


def scale_for(largest: float) -> float:
    """The least power of two by which no value is beyond the largest number."""
    return 2.0 ** math.ceil(math.log2(largest / LARGEST)) if 0.0 < largest < math.inf else 1.0


def in_units(value: torch.Tensor, scale: float | torch.Tensor) -> torch.Tensor:
    """Rounded to the nearest number; what is too large is taken as the largest."""
    return (value.float() / scale).clamp(-LARGEST, LARGEST).to(E4M3)


def rounded(value: torch.Tensor, scale: float | torch.Tensor) -> torch.Tensor:
    return in_units(value, scale).float() * scale


def rounded_weights(weight: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    """In e4m3, and their scales, one for each output channel. Weights that were rounded so keep their values."""
    others = [d for d in range(weight.dim()) if d != axis]
    largest = weight.float().abs().amax(others)
    scales = torch.tensor([scale_for(one) for one in largest.tolist()], device=weight.device)
    shape = [-1 if d == axis else 1 for d in range(weight.dim())]
    return in_units(weight, scales.view(shape)), scales


def is_eight(node: Node) -> bool:
    """Whether its values are e4m3 numbers."""
    return node.kind == "e4m3" or (node.kind in PASSING and all(is_eight(one) for one in node.inputs))


def scale_of(node: Node) -> float:
    """The scale of a node whose values are e4m3 numbers."""
    return float(node.params[0]) if node.kind == "e4m3" else scale_of(node.source)
