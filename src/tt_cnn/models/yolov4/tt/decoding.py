# SPDX-License-Identifier: Apache-2.0
"""From the head's maps to boxes and confidences, on the card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import ConcatConfiguration, PlacementConfiguration, TtConcat, TtPlacement
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.models.yolov4.reference.boxes import ANCHORS, STRIDES
from tt_cnn.models.yolov4.tt.layers import concatenated, freed


class Decoding:
    """Maps (1, 1, cells, 3 * (5 + classes)) to corners (1, 1, boxes, 4) and confidences (1, 1, boxes, classes).

    Works with the cells last, which fills tiles; what a cell adds to a center and what an anchor multiplies are
    constants, in fractions of the image. Corners are float32: bfloat16 has steps of a pixel and more in an image of
    320, which strict measures of a box's place notice.
    """

    def __init__(self, device: Any, resolution: tuple[int, int], classes: int) -> None:
        self.classes = classes
        self.scales = [
            Scale(device, resolution, stride, anchors, f"decode.stride{stride}")
            for stride, anchors in zip(STRIDES, ANCHORS, strict=True)
        ]
        interleaved = ConcatConfiguration("l1")
        self.boxes = TtConcat(interleaved, device, "decode.boxes")
        self.confidences = TtConcat(interleaved, device, "decode.confidences")

    def __call__(self, maps: Sequence[Any]) -> tuple[Any, Any]:
        decoded = [scale(each, self.classes) for scale, each in zip(self.scales, maps, strict=True)]
        boxes, confidences = zip(*decoded, strict=True)
        return self.boxes(boxes, dim=2), self.confidences(confidences, dim=2)


class Scale:
    """The map of one stride."""

    def __init__(
        self,
        device: Any,
        resolution: tuple[int, int],
        stride: int,
        anchors: Sequence[tuple[int, int]],
        name: str = "",
    ) -> None:
        self.input = TtPlacement(PlacementConfiguration(ttnn.L1_MEMORY_CONFIG), device, f"{name}.input")
        height, width = (side // stride for side in resolution)
        self.anchors = len(anchors)
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        cells = torch.stack((columns / width, rows / height)).reshape(1, 1, 2, height * width)
        sides = torch.tensor((width, height), dtype=torch.float32).view(1, 1, 2, 1)
        picture = torch.tensor((resolution[1], resolution[0]), dtype=torch.float32)
        halves = (torch.tensor(anchors) / picture / 2).view(1, self.anchors, 2, 1)
        self.first, self.cell, self.half = (_constant(each, device) for each in (cells, 1 / sides, halves))

    def __call__(self, x: Any, classes: int) -> tuple[Any, Any]:
        x = self.input(x)
        if x.layout != ttnn.ROW_MAJOR_LAYOUT:
            x = freed(x, ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT))
        x = freed(x, ttnn.permute(x, (0, 1, 3, 2)))
        cells = x.shape[3]
        x = ttnn.reshape(x, (1, self.anchors, 5 + classes, cells))
        center, size, object_, classes_ = (
            self._field(x, first, last) for first, last in ((0, 2), (2, 4), (4, 5), (5, 5 + classes))
        )
        ttnn.deallocate(x)
        boxes = self._corners(center, size)
        return boxes, self._confidences(object_, classes_)

    def _corners(self, center: Any, size: Any) -> Any:
        """(1, 1, boxes, 4) from (1, anchors, 2, cells) each."""
        center, size = (freed(each, ttnn.typecast(each, ttnn.float32)) for each in (center, size))
        center = freed(center, ttnn.sigmoid(center))
        center = freed(center, ttnn.multiply(center, self.cell))
        center = freed(center, ttnn.add(center, self.first))
        half = freed(size, ttnn.exp(size))
        half = freed(half, ttnn.multiply(half, self.half))
        corners = [ttnn.subtract(center, half), ttnn.add(center, half)]
        ttnn.deallocate(center)
        ttnn.deallocate(half)
        corners = [freed(each, ttnn.to_layout(each, ttnn.ROW_MAJOR_LAYOUT)) for each in corners]
        return self._values_last(concatenated(corners, dim=2))

    def _confidences(self, object_: Any, classes: Any) -> Any:
        """(1, 1, boxes, classes) from (1, anchors, 1 and classes, cells)."""
        object_ = freed(object_, ttnn.sigmoid(object_))
        classes = freed(classes, ttnn.sigmoid(classes))
        confidence = freed(classes, ttnn.multiply(classes, object_))
        ttnn.deallocate(object_)
        return self._values_last(freed(confidence, ttnn.to_layout(confidence, ttnn.ROW_MAJOR_LAYOUT)))

    def _values_last(self, x: Any) -> Any:
        """(1, anchors, values, cells) as (1, 1, anchors * cells, values)."""
        _, anchors, values, cells = x.shape
        x = freed(x, ttnn.permute(x, (0, 1, 3, 2)))
        return ttnn.reshape(x, (1, 1, anchors * cells, values))

    def _field(self, x: Any, first: int, last: int) -> Any:
        """The same channels of all anchors."""
        rows = ttnn.slice(x, [0, 0, first, 0], [1, self.anchors, last, x.shape[3]])
        return freed(rows, ttnn.to_layout(rows, ttnn.TILE_LAYOUT))


def _constant(values: torch.Tensor, device: Any) -> Any:
    return ttnn.from_torch(
        values, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device, mesh_mapper=weights_mapper(device)
    )
