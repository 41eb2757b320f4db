# SPDX-License-Identifier: Apache-2.0
"""Modules of the model beside the reference's, in one run."""

from __future__ import annotations

from typing import Any

from tt_cnn.models import create_tt, model_entry
from tt_cnn.testing import compare_layers

CAREFUL_BLOCKS = 7


def test_the_careful_blocks_stay_near_the_references(reference: Any, device: Any) -> None:
    """Errors add up, and seeded weights make them grow from block to block: so the first ones must make few."""
    model = create_tt("mobilenetv2", device, reference)
    images = model_entry("mobilenetv2").example_input()
    names = {"stem": "features.0"} | {f"blocks.{i}": f"features.{i + 1}" for i in range(CAREFUL_BLOCKS)}
    report = compare_layers(reference, model, images, model.place(images), threshold=0.985, names=names)
    careful = [layer for layer in report.layers if layer.name in names]
    assert len(careful) == CAREFUL_BLOCKS + 1
    assert all(layer.passed for layer in careful), str(report)
