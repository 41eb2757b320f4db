# SPDX-License-Identifier: Apache-2.0
"""The 8-bit steps that fit values."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.eight_bit.calibration import Observation

CLIPS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2)
"""How much of the largest value is tried as the end of the range."""
LEVELS = 255
GROWTH = 1.5
"""By how much other inputs' largest values may exceed those of the samples, whose number is small: steps are fitted to
such inputs. Where they were fitted to the samples alone, fresh inputs lost several times as much as the samples did."""


def steps_for(observations: Sequence[Observation]) -> tuple[float, int]:
    """Scale and zero point of 8-bit steps for values that share them: those with the least mean squared error.

    A wide range has coarse steps, a narrow one cuts off what lies beyond it, on other inputs more than on samples. Zero
    is always a step, for padding.
    """
    low, high = GROWTH * min(o.low for o in observations), GROWTH * max(o.high for o in observations)
    if low == high:
        return 1.0, 0
    values = torch.cat([one for o in observations for one in o.picked])
    peaks = GROWTH * torch.cat([one for o in observations for one in o.peaks])
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
