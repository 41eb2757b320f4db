# SPDX-License-Identifier: Apache-2.0
"""The figures that the guide of the cost model has for several chips are those that a profile has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tt_cnn.reports.profiling import profile_model

GUIDE = Path(__file__).parents[2] / "docs" / "cost-model.md"
FARTHEST = 0.15
"""From what is published."""


@pytest.mark.parametrize(("card", "chips"), [("n150", 1), ("n300", 2), ("t3000", 8), ("galaxy", 32)])
def test_resnet50_on_several_chips(card: str, chips: int) -> None:
    row = re.search(rf"^\| `{card}`.*$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    assert row is not None
    cells = [cell.strip().replace(",", "") for cell in row.group().strip("|").split("|")]
    profile = profile_model("resnet50", card=card, batch_size=16, executor="trace+2cq", beside=())
    assert profile.images == 16 * chips and int(cells[1]) == chips
    assert round(profile.fps) == int(cells[2])
    assert f"{profile.fps / int(cells[3]):.2f}" == cells[4]
    assert abs(profile.fps / int(cells[3]) - 1) < FARTHEST
