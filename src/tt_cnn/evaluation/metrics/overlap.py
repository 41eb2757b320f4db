# SPDX-License-Identifier: Apache-2.0
"""How well masks cover what they should."""

from __future__ import annotations

from typing import Any

import torch


class Overlap:
    """Intersection over union and Dice's coefficient of masks, over the pixels of all images together.

    So large objects count more than small ones, and an image without any counts only what is wrongly found in it.
    """

    def __init__(self) -> None:
        self.shared = self.predicted = self.true = 0

    def add(self, prediction: Any, target: Any) -> None:
        """Two masks of one size: true where the object is (predicted, and really)."""
        found, there = (torch.as_tensor(each).bool() for each in (prediction, target))
        if found.shape != there.shape:
            raise ValueError(f"the mask is {tuple(found.shape)}; the true one is {tuple(there.shape)}")
        self.shared += int((found & there).sum())
        self.predicted += int(found.sum())
        self.true += int(there.sum())

    def results(self) -> dict[str, float]:
        """Nothing there and nothing found is full agreement."""
        both = self.predicted + self.true
        union = both - self.shared
        return {
            "IoU": 100 * self.shared / union if union else 100.0,
            "Dice": 100 * 2 * self.shared / both if both else 100.0,
        }
