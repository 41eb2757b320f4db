# SPDX-License-Identifier: Apache-2.0
"""Each encoder alone, on what the reference's gets: its skip in DRAM, and the pooled output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.vanilla_unet.tt.model import TtEncoder
from tt_cnn.testing import assert_with_pcc

PADDED_CHANNELS = 8
"""What convert_to_hwc makes of a picture's three."""


@pytest.mark.parametrize("level", [1, 2, 3, 4])
def test_encoder(
    level: int, layers: Mapping[str, Any], device: Any, images: Any, activations: dict[str, torch.Tensor]
) -> None:
    if level == 1:
        given = images.in_rows(activations["images"], PADDED_CHANNELS)
    else:
        given = images.in_rows(activations[f"pool{level - 1}"])
    smaller, skip = TtEncoder(layers, device, level)(given)
    whole, pooled = activations[f"encoder{level}"], activations[f"pool{level}"]
    assert skip.memory_config() == ttnn.DRAM_MEMORY_CONFIG
    assert smaller.memory_config().buffer_type == ttnn.BufferType.L1
    assert_with_pcc(whole, images.to_torch(skip, whole), 0.998)
    assert_with_pcc(pooled, images.to_torch(smaller, pooled), 0.998)
