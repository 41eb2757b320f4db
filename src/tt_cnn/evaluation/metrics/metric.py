# SPDX-License-Identifier: Apache-2.0
"""What every figure over a data set is: fed with one image after the other, asked at the end."""

from __future__ import annotations

from typing import Any, Protocol


class Metric(Protocol):
    def add(self, prediction: Any, target: Any) -> None:
        """One image: what was predicted, and what is there."""

    def results(self) -> dict[str, float]:
        """Figures by name, in points (0 to 100)."""
