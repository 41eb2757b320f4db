# SPDX-License-Identifier: Apache-2.0
"""The first downsampling: the picture to 64 channels at half its size."""

from __future__ import annotations

import pytest

from tests.models.yolov4.modules import VARIANTS, ModulePcc, check


@pytest.mark.parametrize(("width", "card", "precision"), VARIANTS)
def test_downsample1_is_near_the_references(width: float, card: str, precision: str, module_pcc: ModulePcc) -> None:
    check(module_pcc("down1", width, card, precision), precision)
