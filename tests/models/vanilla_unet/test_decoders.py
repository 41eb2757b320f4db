# SPDX-License-Identifier: Apache-2.0
"""Each decoder alone, on what the reference's gets: the smaller picture, and the encoder's in DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tt_cnn.models.vanilla_unet.tt.model import TtDecoder
from tt_cnn.testing import assert_with_pcc

BELOW = {4: "bottleneck", 3: "decoder4", 2: "decoder3", 1: "decoder2"}


@pytest.mark.parametrize("level", BELOW)
def test_decoder(
    level: int, layers: Mapping[str, Any], device: Any, images: Any, activations: dict[str, torch.Tensor]
) -> None:
    smaller, skip, expected = (activations[n] for n in (BELOW[level], f"encoder{level}", f"decoder{level}"))
    given = images.in_tiles(smaller, layers[f"upconv{level}"].activation_dtype)
    beside = images.in_dram(skip, layers[f"encoder{level}.conv2"].output_dtype)
    output = TtDecoder(layers, device, level)(given, beside)
    assert not beside.is_allocated()
    assert_with_pcc(expected, images.to_torch(output, expected), 0.995)
