# SPDX-License-Identifier: Apache-2.0
"""Published rates of models on cards, from `published_performance.json`.

They are those of tt-metal's tests and READMEs, at commit e4f9f0bb8de where they are of 2026-08 and at 16614590949 where
they are of 2025-11. Device fps: the batch over the sum of all kernels' durations. End to end: host time behind traces
and two command queues.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).with_name("published_performance.json")
Resolution = tuple[int, int]


@dataclass(frozen=True)
class PublishedRate:
    model: str
    resolution: Resolution
    batch: int
    card: str
    device_fps: float
    measured: str
    """Year and month."""
    tolerance: float = 0.0
    """What the published test lets the rate be off by, of 1."""
    min_pcc: float | Mapping[str, float] = 0.99
    """What the published test asks of every output, or of each."""
    end_to_end_fps: float | None = None

    @property
    def gate(self) -> str:
        """What the published test asks, in words."""
        if isinstance(self.min_pcc, Mapping):
            return ", ".join(f"{output} {least:g}" for output, least in self.min_pcc.items())
        return f"{self.min_pcc:g}"

    @property
    def title(self) -> str:
        return f"{self.model} {self.resolution[0]}x{self.resolution[1]} batch {self.batch} on {self.card}"


@cache
def published_rates() -> tuple[PublishedRate, ...]:
    rows = json.loads(FILE.read_text(encoding="utf-8"))
    return tuple(PublishedRate(**{**row, "resolution": tuple(row["resolution"])}) for row in rows)


def published_rate(model: str, card: str, resolution: Resolution, batch: int = 1) -> PublishedRate:
    wanted = (model, card, resolution, batch)
    return next(rate for rate in published_rates() if (rate.model, rate.card, rate.resolution, rate.batch) == wanted)
