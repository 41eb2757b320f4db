# SPDX-License-Identifier: Apache-2.0
"""Whether inputs are like those that 8 bits were fitted to.

Scales are fitted to the samples' values, so other inputs may lie beyond them, or be lost within one step. Both show in
a few numbers of an input: its range, its mean and deviation, how rough it is, and the same of short runs of neighbours,
since a patch that is unlike all samples hardly moves the numbers of a whole image.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from tt_cnn.virtual.engines.replay.kernels import looks

RUN, RUNS = 16, 1 << 11
"""Neighbours in a run, and how many runs are looked at, evenly spread; of the least and the largest value all are."""
NAMES = (
    "least value",
    "largest value",
    "mean",
    "deviation",
    "deviation within lines",
    "roughness",
    "deviation of a run",
    "roughness of a run",
)
"""What is measured. Roughness is the mean step from a pixel to the next. Lines are channels, or rows of pixels: tiles
are padded with channels of zeros, which do not count for the mean, and beside which the others seem to deviate much,
whatever is in them."""

BEYOND = 0.25
"""How far values may lie outside the samples' range, in units of that range: the outermost values are few, and cutting
them off there costs little."""
TIMES = 1.6
"""By how much deviations and roughness may leave what samples had; of fresh images beside four samples it is 1.4."""
SHIFT = 0.5
"""How far the mean may lie beyond the samples' means and as far again as those are apart, in units of a deviation."""


def numbers_of(value: torch.Tensor) -> list[float]:
    """The numbers of `NAMES`; what is not finite makes some of them not finite."""
    found = looks.input_statistics(value, _runs(value))
    return statistics(value).tolist() if found is None else found


def statistics(value: torch.Tensor) -> torch.Tensor:
    """The same, by torch on the value's device."""
    runs = _runs(value).contiguous().float()
    means = runs.mean(-1)
    variances = (runs - means[..., None]).square_().mean(-1)
    steps = (runs[..., 1:] - runs[..., :-1]).abs_().sum(-1) / max(1, runs.shape[-1] - 1)
    spreads = means.var(correction=0), means.var(1, correction=0).mean()
    deviations = [(variances.mean() + spread).sqrt() for spread in spreads]
    filled = (means.abs() + variances).amax(1).count_nonzero().clamp_min(1)  # the lines that are not padding
    mean = means.mean(1).sum() / filled
    ends = [end.float() for end in value.aminmax()]
    return torch.stack((*ends, mean, *deviations, steps.mean(), variances.amax().sqrt(), steps.amax()))


def _runs(value: torch.Tensor) -> torch.Tensor:
    """Runs of neighbours: (lines, runs, pixels). Pixels lie along the longer of the last two axes, as in images with
    channels first or last."""
    if value.dim() < 2:
        value = value.reshape(1, -1)
    if value.shape[-1] < value.shape[-2]:
        pixels = value.reshape(-1, value.shape[-1])
        length = min(RUN, len(pixels))
        runs = pixels[: len(pixels) // length * length].reshape(-1, length, pixels.shape[1])
        return runs[:: max(1, len(runs) * pixels.shape[1] // RUNS)].permute(2, 0, 1)
    length = min(RUN, value.shape[-1])
    lines = value.reshape(-1, value.shape[-1])[:, : value.shape[-1] // length * length]
    runs = lines.reshape(len(lines), -1, length)
    step = max(1, runs.shape[0] * runs.shape[1] // RUNS)
    return runs[::step] if runs.shape[0] > runs.shape[1] else runs[:, ::step]


@dataclass(frozen=True)
class Band:
    """What one number may be."""

    name: str
    low: float
    high: float
    seen: tuple[float, float]
    """What it was in the samples, from and to."""

    def unlike(self, value: float) -> str:
        """Why it is not like the samples'; empty where it is. What is not a number is in no band."""
        if self.low <= value <= self.high:
            return ""
        return f"the {self.name} is {value:.4g}, of the samples {self.seen[0]:.4g} to {self.seen[1]:.4g}"


@dataclass(frozen=True)
class InputRange:
    """What one input of a trace was like in the samples, and so what it may be in 8 bits."""

    bands: tuple[Band, ...]

    @classmethod
    def of(cls, samples: Sequence[torch.Tensor]) -> InputRange:
        return cls.of_statistics([numbers_of(sample) for sample in samples])

    @classmethod
    def of_statistics(cls, found: Sequence[Sequence[float]]) -> InputRange:
        """From the samples' numbers, a row each."""
        seen = [(min(column), max(column)) for column in zip(*found, strict=True)]
        (least, _), (_, largest), means, deviations, within = seen[:5]
        room = BEYOND * (largest - least)
        shift = means[1] - means[0] + SHIFT * deviations[1]
        limits = [
            (least - room, math.inf),
            (-math.inf, largest + room),
            (means[0] - shift, means[1] + shift),
            *((low / TIMES, high * TIMES) for low, high in (deviations, within)),
            *((0.0, high * TIMES) for _, high in seen[5:]),
        ]
        names = zip(NAMES, limits, seen, strict=True)
        return cls(tuple(Band(name, _below(low), _above(high), ends) for name, (low, high), ends in names))

    def unlike(self, found: Sequence[float]) -> str:
        """Why an input with these numbers is not like the samples; empty where it is."""
        if not all(map(math.isfinite, found)):
            return "not all values are finite"
        return next(filter(None, (band.unlike(value) for band, value in zip(self.bands, found, strict=True))), "")


def _below(limit: float) -> float:
    """Sums of the same values may differ in their last digits, as on another device."""
    return limit - 1e-5 * abs(limit)


def _above(limit: float) -> float:
    return -_below(-limit)
