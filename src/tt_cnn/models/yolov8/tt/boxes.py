# SPDX-License-Identifier: Apache-2.0
"""From the head's maps to boxes and class scores, on the card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import ConcatConfiguration, TtConcat
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.models.yolov8.reference.boxes import BINS, SIDES, STRIDES, cells

L1 = ttnn.L1_MEMORY_CONFIG
LARGEST_LOGIT = 60.0
"""Whose exponential float32 holds sixteen times over. Trained models stay below 20."""
SIDES_TO_CENTERS = ((-0.5, 0.0, 1.0, 0.0), (0.0, -0.5, 0.0, 1.0), (0.5, 0.0, 1.0, 0.0), (0.0, 0.5, 0.0, 1.0))
"""(left, top, right, bottom) times this is the offset of the center, and the size."""


class TtDecode:
    """The mean of each distribution, sum(k exp(x_k)) / sum(exp(x_k)), is two products with constant matrices.

    So the 4 x 16 channels never have to be taken apart, which tiles of 32 channels would not like. Boxes are computed
    in float32: bfloat16 has steps of 4 pixels at the far side of an image.
    """

    def __init__(self, device: Any, resolution: tuple[int, int]) -> None:
        self.device = device
        height, width = resolution
        middles, strides = cells([(height // stride, width // stride) for stride in STRIDES])
        sums = torch.eye(SIDES).repeat_interleave(BINS, dim=0)
        self.sums = self._constant(sums)
        self.weighted_sums = self._constant(sums * torch.arange(BINS).repeat(SIDES)[:, None])
        self.to_centers = self._constant(torch.tensor(SIDES_TO_CENTERS))
        self.middles = self._constant(torch.cat((middles.T, torch.zeros_like(middles.T)), dim=1))
        self.strides = self._constant(strides.T.repeat(1, SIDES))
        self.box_maps = TtConcat(ConcatConfiguration("l1"), device, "decode.box_maps")
        self.class_maps = TtConcat(ConcatConfiguration("l1"), device, "decode.class_maps")
        self.predictions = TtConcat(ConcatConfiguration("dram"), device, "decode.predictions")
        self.exact = ttnn.init_device_compute_kernel_config(
            device.arch(), math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True, packer_l1_acc=True
        )

    def __call__(self, boxes: Sequence[Any], classes: Sequence[Any]) -> Any:
        """(1, 1, 4 + classes, boxes) in rows; the maps, one for each stride, are freed.

        In DRAM: 67 KB per core, held until the host has read them, would be missing where the next image is largest.
        """
        corners = self._boxes(self.box_maps(boxes, dim=2))
        scores = self._scores(self.class_maps(classes, dim=2))
        return self.predictions([corners, scores], dim=2)

    def _boxes(self, logits: Any) -> Any:
        x = _then(logits, ttnn.typecast(logits, ttnn.float32))
        x = _then(x, ttnn.clamp(x, -LARGEST_LOGIT, LARGEST_LOGIT))
        powers = _then(x, ttnn.exp(x))
        totals, means = (self._times(powers, matrix) for matrix in (self.sums, self.weighted_sums))
        _free(powers)
        distances = ttnn.divide(means, totals)
        _free(means, totals)
        sides = _then(distances, self._times(distances, self.to_centers))
        moved = _then(sides, ttnn.add(sides, self.middles))
        return _in_columns(_then(moved, ttnn.multiply(moved, self.strides)))

    def _scores(self, logits: Any) -> Any:
        scores = _then(logits, ttnn.sigmoid(logits))
        return _in_columns(_then(scores, ttnn.typecast(scores, ttnn.float32)))

    def _times(self, x: Any, matrix: Any) -> Any:
        return ttnn.matmul(x, matrix, memory_config=L1, compute_kernel_config=self.exact)

    def _constant(self, values: torch.Tensor) -> Any:
        return ttnn.from_torch(
            values[None, None].contiguous(),
            dtype=ttnn.float32,
            layout=ttnn.TILE_LAYOUT,
            device=self.device,
            mesh_mapper=weights_mapper(self.device),
        )


def _in_columns(x: Any) -> Any:
    """A box a column, row-major."""
    turned = _then(x, ttnn.permute(x, (0, 1, 3, 2)))
    return _then(turned, ttnn.to_layout(turned, ttnn.ROW_MAJOR_LAYOUT))


def _then(before: Any, after: Any) -> Any:
    """What an op made; what it was made from is freed."""
    ttnn.deallocate(before)
    return after


def _free(*tensors: Any) -> None:
    for tensor in tensors:
        ttnn.deallocate(tensor)
