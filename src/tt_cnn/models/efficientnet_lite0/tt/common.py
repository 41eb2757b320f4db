# SPDX-License-Identifier: Apache-2.0
"""Where the reference has its layers, and its parameters as the card takes them."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0, InvertedResidual
from tt_cnn.models.inverted_residuals import BlockNames, Names
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.preprocessing import preprocess_model_parameters


def convert_parameters(reference: EfficientNetLite0, device: Any) -> Any:
    """Weights and biases on the host, nested as the reference is, batch norms folded in."""
    return preprocess_model_parameters(
        initialize_model=lambda: reference, dtype=ttnn.float32, mesh_mapper=weights_mapper(device)
    )


def names_of(reference: EfficientNetLite0) -> Names:
    blocks = tuple(_block(i, block) for i, block in enumerate(reference.blocks))
    return Names("stem.conv", blocks, "head.conv", "classifier.1")


def _block(index: int, block: Any) -> BlockNames:
    """The first block expands nothing."""
    assert isinstance(block, InvertedResidual)
    at = f"blocks.{index}"
    return BlockNames(
        None if block.expand is None else f"{at}.expand.conv", f"{at}.depthwise.conv", f"{at}.project.conv"
    )
