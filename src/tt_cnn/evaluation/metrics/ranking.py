# SPDX-License-Identifier: Apache-2.0
"""How often the right class is first, or among the first five."""

from __future__ import annotations

from typing import Any

import torch

PLACES = (1, 5)


class Ranking:
    """Top-1 and top-5 accuracy."""

    def __init__(self) -> None:
        self.pictures = 0
        self.right = dict.fromkeys(PLACES, 0)

    def add(self, prediction: Any, target: Any) -> None:
        """Scores for each class (classes,), and the number of the right one."""
        order = torch.as_tensor(prediction).argsort(descending=True, stable=True).tolist()
        self.pictures += 1
        for places in PLACES:
            self.right[places] += int(target) in order[:places]

    def results(self) -> dict[str, float]:
        return {f"top-{places}": 100 * right / max(self.pictures, 1) for places, right in self.right.items()}
