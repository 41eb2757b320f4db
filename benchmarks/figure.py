# SPDX-License-Identifier: Apache-2.0
"""A figure of a benchmark beside the limit that it has to keep."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    what: str
    value: float
    unit: str
    limit: float
    at_least: bool = False

    @property
    def met(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value < self.limit

    def __str__(self) -> str:
        word = "at least" if self.at_least else "under"
        verdict = "" if self.met else "   MISSED"
        return f"{self.what:<52} {self.value:8.2f} {self.unit:<9} (limit: {word} {self.limit:g}){verdict}"
