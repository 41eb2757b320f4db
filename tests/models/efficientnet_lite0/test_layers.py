# SPDX-License-Identifier: Apache-2.0
"""Every module of the model beside the reference's, in one run, with trained weights."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn.models import create_tt
from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0
from tt_cnn.testing import compare_layers


def test_every_layer_is_near_the_references(
    trained: EfficientNetLite0, pictures: dict[str, torch.Tensor], device: Any
) -> None:
    """Errors add up: each is compared behind all that come before it."""
    model = create_tt("efficientnet_lite0", device, trained)
    cat = pictures["chelsea"]
    report = compare_layers(trained, model, cat, model.place(cat), threshold=0.99)
    assert {"stem", "blocks.0.depthwise", "blocks.15", "head", "classifier"} <= {one.name for one in report.layers}
    assert report.passed, str(report)
