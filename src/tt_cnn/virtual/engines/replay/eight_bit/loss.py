# SPDX-License-Identifier: Apache-2.0
"""How far outputs are from those in float32."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Values = Sequence[torch.Tensor]


class Loss:
    """1 - PCC of the worst output, over the entries that tell inputs apart.

    What never changes is padding of tiles; what is no number in float32 comes of it too (0 / 0).
    """

    def __init__(self, expected: Sequence[Values]) -> None:
        """Outputs in float32 for several inputs."""
        self._changing = [_changing(results) for results in zip(*expected, strict=True)]

    def __call__(self, found: Values, expected: Values) -> float:
        return max(
            _loss(a[changing], b[changing]) for a, b, changing in zip(found, expected, self._changing, strict=True)
        )


def _changing(results: Values) -> torch.Tensor:
    stacked = torch.stack(tuple(results))
    finite = stacked.isfinite().all(0)
    changes = (stacked[1:] != stacked[0]).any(0) & finite
    return changes if bool(changes.any()) else finite


def _loss(found: torch.Tensor, expected: torch.Tensor) -> float:
    """Where one is constant there is no correlation: 0 where they are close, else 1."""
    if not bool(found.isfinite().all()):
        return 1.0
    if not found.numel():
        return 0.0
    a, b = found.double(), expected.double()
    a, b = a - a.mean(), b - b.mean()
    lengths = float(a.norm() * b.norm())
    if lengths == 0.0:
        return float(not torch.allclose(found, expected, rtol=1e-2, atol=1e-4))
    return max(0.0, 1.0 - float(a @ b) / lengths)
