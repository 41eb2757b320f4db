# SPDX-License-Identifier: Apache-2.0
"""The neck: pyramid pooling, and up twice; three maps come out."""

from __future__ import annotations

import pytest

from tests.models.yolov4.modules import VARIANTS, ModulePcc, check


@pytest.mark.parametrize(("width", "card", "precision"), VARIANTS)
def test_neck_is_near_the_references(width: float, card: str, precision: str, module_pcc: ModulePcc) -> None:
    pccs = module_pcc("neck", width, card, precision)
    assert len(pccs) == 3
    check(pccs, precision)
