# SPDX-License-Identifier: Apache-2.0
"""Where the reference has its layers, and its parameters as the card takes them."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.models.inverted_residuals import BlockNames, Names
from tt_cnn.models.mobilenetv2.reference.model import InvertedResidual, MobileNetV2
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.preprocessing import preprocess_model_parameters


def convert_parameters(reference: MobileNetV2, device: Any) -> Any:
    """Weights and biases on the host, nested as the reference is, batch norms folded in."""
    return preprocess_model_parameters(
        initialize_model=lambda: reference, dtype=ttnn.float32, mesh_mapper=weights_mapper(device)
    )


def names_of(reference: MobileNetV2) -> Names:
    last = len(reference.features) - 1
    blocks = tuple(_block(i, reference.features[i]) for i in range(1, last))
    return Names("features.0.0", blocks, f"features.{last}.0", "classifier.1")


def _block(index: int, block: Any) -> BlockNames:
    """The first block expands nothing."""
    assert isinstance(block, InvertedResidual)
    at = f"features.{index}.conv"
    if len(block.conv) == 3:
        return BlockNames(None, f"{at}.0.0", f"{at}.1")
    return BlockNames(f"{at}.0.0", f"{at}.1.0", f"{at}.2")
