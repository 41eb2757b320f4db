"""Each decoder alone, on what the reference's gets: the smaller picture, and the encoder's in DRAM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.vanilla_unet.tt.model import TtDecoder, joined
from tt_cnn.testing import assert_with_pcc

DTYPES = (ttnn.bfloat8_b, ttnn.bfloat16)
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


@pytest.mark.parametrize("channels", [16, 32, 64])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("together", DTYPES, ids=str)
def test_joined_is_torchs_concatenation(channels: int, dtype: Any, together: Any, images: Any) -> None:
    """In tiles where both have the dtype asked for and channels fill tiles; in rows otherwise. Twos are exact."""
    left, right = (torch.randint(-2, 3, (1, channels, 48, 64)).float() for _ in range(2))
    output = joined(images.in_tiles(left, dtype), images.in_dram(right, ttnn.bfloat8_b), together)
    expected = torch.cat((left, right), dim=1)
    assert output.dtype == together and output.layout == ttnn.TILE_LAYOUT
    assert torch.equal(images.to_torch(output, expected), expected)
