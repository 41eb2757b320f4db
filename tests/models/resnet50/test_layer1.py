# SPDX-License-Identifier: Apache-2.0
"""The first stage of bottlenecks."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.resnet50.modules import VARIANTS

PCC = {"tuned": 0.995, "bfloat16": 0.998}


@pytest.mark.parametrize(("card", "batch_size", "precision"), VARIANTS)
def test_layer1_is_near_the_references(
    card: str, batch_size: int, precision: str, module_pcc: Callable[..., float]
) -> None:
    assert module_pcc("layer1", card, batch_size, precision) >= PCC[precision]
