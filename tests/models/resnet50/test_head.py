# SPDX-License-Identifier: Apache-2.0
"""The head: the average over each picture and the classifier."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.models.resnet50.modules import VARIANTS

PCC = {"tuned": 0.999, "bfloat16": 0.9995}


@pytest.mark.parametrize(("card", "batch_size", "precision"), VARIANTS)
def test_the_head_is_near_the_references(
    card: str, batch_size: int, precision: str, module_pcc: Callable[..., float]
) -> None:
    assert module_pcc("head", card, batch_size, precision) >= PCC[precision]
