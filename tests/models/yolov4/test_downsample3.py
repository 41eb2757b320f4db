# SPDX-License-Identifier: Apache-2.0
"""The third downsampling: eight residual blocks, height sharded."""

from __future__ import annotations

import pytest

from tests.models.yolov4.modules import VARIANTS, ModulePcc, check


@pytest.mark.parametrize(("width", "card", "precision"), VARIANTS)
def test_downsample3_is_near_the_references(width: float, card: str, precision: str, module_pcc: ModulePcc) -> None:
    check(module_pcc("down3", width, card, precision), precision)
