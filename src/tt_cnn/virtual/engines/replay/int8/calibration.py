"""What values a graph's nodes take on sample inputs, and the 8-bit steps that fit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from tt_cnn.virtual.engines.replay.evaluate import walk
from tt_cnn.virtual.engines.replay.graph import Node

PICKED = 1 << 13
"""Values of a tensor that are looked at, evenly spread, a sample."""
CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
"""How much of the largest value is tried as the end of the range."""
LEVELS = 255


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
        least, largest = value.amin(-1).reshape(-1), value.amax(-1).reshape(-1)
        self.low, self.high = min(self.low, float(least.min())), max(self.high, float(largest.max()))
        self.count += value.numel()
        self.peaks += [least, largest]
        flat = value.reshape(-1)
        self.picked.append(flat[:: max(1, len(flat) // PICKED)].clone())
        if value.dim() == 4:
            self.means.append(value.mean((0, 2, 3)))


class Calibration:
    """Observations of some nodes of a graph on samples, and the steps that fit them."""

    def __init__(
        self, outputs: Sequence[Node], samples: Iterable[Sequence[torch.Tensor]], nodes: Iterable[Node]
    ) -> None:
        self.observations = {id(node): Observation() for node in nodes}
        self._steps: dict[tuple[int, ...], tuple[float, int]] = {}
        for sample in samples:
            for node, value in walk(outputs, sample):
                if id(node) in self.observations:
                    self.observations[id(node)].note(value)

    def steps(self, nodes: Iterable[Node]) -> tuple[float, int]:
        """Scale and zero point that these nodes share. They are fitted once."""
        key = tuple(sorted(id(node) for node in nodes))
        if key not in self._steps:
            self._steps[key] = steps_for([self.observations[one] for one in key])
        return self._steps[key]

    def channel_means(self, node: Node) -> torch.Tensor | None:
        """What each channel of an image is on average."""
        means = self.observations[id(node)].means
        return torch.stack(means).mean(0) if means else None


def steps_for(observations: Sequence[Observation]) -> tuple[float, int]:
    """Scale and zero point of 8-bit steps for values that share them: those with the least mean squared error.

    A wide range has coarse steps, a narrow one cuts off what lies beyond it. Zero is always a step, for padding.
    """
    low, high = min(o.low for o in observations), max(o.high for o in observations)
    if low == high:
        return 1.0, 0
    values = torch.cat([one for o in observations for one in o.picked])
    peaks = torch.cat([one for o in observations for one in o.peaks])
    count = sum(o.count for o in observations)
    best = (float("inf"), 1.0, 0)
    for clip in CLIPS:
        end = clip * max(-low, high)
        first, last = max(low, -end), min(high, end)
        scale = (last - first) / LEVELS
        zero = round(-first / scale)
        rounding = (torch.fake_quantize_per_tensor_affine(values, scale, zero, 0, LEVELS) - values).square().mean()
        beyond = (peaks - peaks.clamp(first, last)).square().sum() / count
        best = min(best, (float(rounding + beyond), scale, zero))
    return best[1:]
