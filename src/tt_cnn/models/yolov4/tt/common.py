# SPDX-License-Identifier: Apache-2.0
"""Parameters of the reference, and boxes from the card as PyTorch has them."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.preprocessing import infer_layer_arguments, preprocess_model_parameters


def convert_parameters(reference: YOLOv4, mesh_mapper: Any = None) -> Any:
    """Weights and biases on the host, nested as the reference is, batch norms folded into the convolutions."""
    return preprocess_model_parameters(
        initialize_model=lambda: reference, fold_batch_norm=True, dtype=ttnn.float32, mesh_mapper=mesh_mapper
    )


def infer_arguments(reference: YOLOv4, resolution: tuple[int, int]) -> dict[str, Any]:
    """Shapes, strides and paddings of all layers by their names in the reference, from a batch of no images.

    Nothing is computed for it. (Of the meta device's tensors torch finds shapes with its compiler; importing that takes
    longer than planning the model.)
    """
    images = torch.empty(0, 3, *resolution)
    return infer_layer_arguments(model=reference, run_model=lambda _: reference.maps(images), device=None)


def to_boxes_and_confidences(outputs: Any, mesh_composer: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes (N, boxes, 1, 4) and confidences (N, boxes, classes) in float32, from (N, 1, boxes, ...)."""
    boxes, confidences = (ttnn.to_torch(each, mesh_composer=mesh_composer).float() for each in outputs)
    return boxes.permute(0, 2, 1, 3), confidences.squeeze(1)
