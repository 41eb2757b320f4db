# SPDX-License-Identifier: Apache-2.0
"""Boxes and confidences from maps, on the card, are those of the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.models.yolov4.modules import on_card
from tt_cnn import ttnn
from tt_cnn.models.yolov4.reference.boxes import ANCHORS, STRIDES, decode
from tt_cnn.models.yolov4.tt.common import to_boxes_and_confidences
from tt_cnn.models.yolov4.tt.decoding import Decoding
from tt_cnn.testing import assert_with_pcc


def maps_of(resolution: tuple[int, int], classes: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(classes)
    height, width = resolution
    channels = len(ANCHORS[0]) * (5 + classes)
    return [
        torch.randn(1, channels, height // stride, width // stride, generator=generator).bfloat16().float()
        for stride in STRIDES
    ]


@pytest.mark.parametrize("card", ["n150", "p150"])
@pytest.mark.parametrize(
    ("size", "classes"), [(320, 4), (320, 80), (320, 1), pytest.param(640, 80, marks=pytest.mark.long)]
)
def test_it_decodes_as_the_reference(size: int, classes: int, card: str, open_device: Callable[..., Any]) -> None:
    device = open_device(card)
    maps = maps_of((size, size), classes)
    found = Decoding(device, (size, size), classes)([on_card(each, ttnn.bfloat16, device) for each in maps])
    boxes, confidences = to_boxes_and_confidences(found)
    expected_boxes, expected_confidences = decode(maps, classes)
    assert_with_pcc(expected_boxes, boxes, 0.9999)
    assert_with_pcc(expected_confidences, confidences, 0.9999)
    # bfloat16 has 8 bits: corners, up to some pictures away, within a percent; centers within a fraction of a cell
    assert torch.allclose(boxes, expected_boxes, rtol=0.02, atol=0.01)


def test_it_keeps_nothing_but_its_outputs(open_device: Callable[..., Any]) -> None:
    device = open_device()
    decoding = Decoding(device, (320, 320), 4)
    maps = maps_of((320, 320), 4)

    def in_use() -> int:
        return int(device.memory_view(ttnn.BufferType.L1).total_bytes_allocated_per_bank)

    before = in_use()
    outputs = decoding([on_card(each, ttnn.bfloat16, device) for each in maps])
    for output in outputs:
        ttnn.deallocate(output)
    assert in_use() == before
