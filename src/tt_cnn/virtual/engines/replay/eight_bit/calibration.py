# SPDX-License-Identifier: Apache-2.0
"""What values a graph's nodes take on sample inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from tt_cnn.virtual.engines.replay.evaluate import walk
from tt_cnn.virtual.engines.replay.graph import Node

PICKED = 1 << 13
"""Values of a tensor that are looked at, evenly spread, a sample."""


@dataclass
class Observation:
    """The values of one node over all samples."""

    count: int = 0
    low: float = 0.0
    high: float = 0.0
    picked: list[torch.Tensor] = field(default_factory=list)
    peaks: list[torch.Tensor] = field(default_factory=list)
    """The ends of each row: what is rare, and what picking misses."""
    means: list[torch.Tensor] = field(default_factory=list)
    """Of each channel, a sample each; only images have them."""

    def note(self, value: torch.Tensor) -> None:
        value = value.contiguous()  # torch is slow to compare numbers that do not lie side by side
        least, largest = value.amin(-1).reshape(-1), value.amax(-1).reshape(-1)
        self.low, self.high = min(self.low, float(least.min())), max(self.high, float(largest.max()))
        self.count += value.numel()
        self.peaks += [least, largest]
        flat = value.reshape(-1)
        self.picked.append(flat[:: max(1, len(flat) // PICKED)].clone())
        if value.dim() == 4:
            self.means.append(value.mean((0, 2, 3)))


class Calibration:
    """Observations of some nodes of a graph on samples."""

    def __init__(
        self, outputs: Sequence[Node], samples: Iterable[Sequence[torch.Tensor]], nodes: Iterable[Node]
    ) -> None:
        self.observations = {id(node): Observation() for node in nodes}
        for sample in samples:
            for node, value in walk(outputs, sample):
                if id(node) in self.observations:
                    self.observations[id(node)].note(value)

    def channel_means(self, node: Node) -> torch.Tensor | None:
        """What each channel of an image is on average."""
        means = self.observations[id(node)].means
        return torch.stack(means).mean(0) if means else None
