# SPDX-License-Identifier: Apache-2.0
"""Programs with a problem in them, and what is asked of the finding that names it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.reports.findings import KINDS, Finding, find
from tt_cnn.reports.profile import Profile, profile_commands
from tt_cnn.reports.recording import PlanningCard, recorded

Program = Callable[[Any], Any]


def profiled(card: PlanningCard, make: Callable[[], Any], program: Program) -> Profile:
    given = make()
    with recorded(card) as notes:
        result = program(given)
    profile = profile_commands(notes, card, traced=True)
    del given, result
    return profile


def found(profile: Profile, kind: str) -> Finding:
    ours = [one for one in find(profile, least_ns=1.0) if one.kind == kind]
    assert ours, [str(one) for one in find(profile, least_ns=1.0)]
    return ours[0]


def total(profile: Profile) -> float:
    return (
        profile.device_ns + profile.rows[1].gap_ns * len(profile.rows) if len(profile.rows) > 1 else profile.device_ns
    )


def check(before: Profile, after: Profile, finding: Finding) -> None:
    """It is as much faster as was said; gaps count where there are several steps."""
    fell = total(before) - total(after)
    assert fell > 0 and finding.saves_ns > 0
    assert finding.saves_ns == pytest.approx(fell, rel=0.25, abs=1500)
    assert finding.layer and finding.problem in str(finding) and finding.advice in str(finding)
    assert finding.kind in KINDS


def image(card: PlanningCard, pixels: int, channels: int, memory_config: Any = None, layout: Any = None) -> Any:
    return ttnn.from_torch(
        torch.zeros(1, 1, pixels, channels),
        ttnn.bfloat16,
        layout=layout or ttnn.TILE_LAYOUT,
        device=card,
        memory_config=memory_config or ttnn.L1_MEMORY_CONFIG,
    )
