# SPDX-License-Identifier: Apache-2.0
"""The bottleneck alone, on what the reference's gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tt_cnn.models.vanilla_unet.tt.model import TtBlock
from tt_cnn.testing import assert_with_pcc


def test_bottleneck(layers: Mapping[str, Any], device: Any, images: Any, activations: dict[str, torch.Tensor]) -> None:
    given = images.in_rows(activations["pool4"])
    expected = activations["bottleneck"]
    output = TtBlock(layers, device, "bottleneck")(given)
    assert not given.is_allocated(), "the first convolution gives its input back"
    assert_with_pcc(expected, images.to_torch(output, expected), 0.998)
