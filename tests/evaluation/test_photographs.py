# SPDX-License-Identifier: Apache-2.0
"""Real photographs: EfficientNet-Lite0 with its public weights says on the card what it says in PyTorch."""

from __future__ import annotations

import pytest

from tt_cnn.evaluation.folders import photographs
from tt_cnn.evaluation.side_by_side import compare
from tt_cnn.evaluation.weights import reference_with
from tt_cnn.models import model_entry
from tt_cnn.models.running import running_model


@pytest.mark.parametrize("precision", ["tuned", pytest.param("bfloat16", marks=pytest.mark.long)])
def test_the_first_class_is_pytorch_s_on_every_photograph(precision: str) -> None:
    entry = model_entry("efficientnet_lite0")
    reference, whose = reference_with(entry, "public")
    data = photographs()
    with running_model(entry, reference, precision=precision) as running:  # type: ignore[arg-type]
        result = compare(entry, reference, running, data, count=len(data), classes=1000)
    assert result.pictures == len(data) == 8
    assert result.differing == [], (whose, result.pcc)
    assert result.agreement["top-1"] == 100
