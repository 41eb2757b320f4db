"""Parameters of the reference, and pictures and boxes between PyTorch and the card."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.preprocessing import infer_ttnn_module_args, preprocess_model_parameters


def convert_parameters(reference: YOLOv4, mesh_mapper: Any = None) -> Any:
    """Weights and biases on the host, nested as the reference is, batch norms folded into the convolutions."""
    return preprocess_model_parameters(
        initialize_model=lambda: reference, fold_batch_norm=True, dtype=ttnn.float32, mesh_mapper=mesh_mapper
    )


def infer_arguments(reference: YOLOv4, resolution: tuple[int, int], batch_size: int) -> Any:
    """Shapes, strides and paddings of all layers, nested as the reference is; nothing is computed."""
    shapes_only = _without_values(reference)
    images = torch.empty(batch_size, 3, *resolution, device="meta")
    return infer_ttnn_module_args(model=shapes_only, run_model=lambda model: model(images), device=None)


def _without_values(reference: YOLOv4) -> nn.Module:
    """A copy with all shapes, but without what keeps them as they are: torch takes seconds over those."""
    memo: dict[int, Any] = {id(one): torch.empty_like(one, device="meta") for one in reference.buffers()}
    for one in reference.parameters():
        memo[id(one)] = nn.Parameter(torch.empty_like(one, device="meta"), requires_grad=False)
    model = copy.deepcopy(reference, memo)
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, (nn.BatchNorm2d, nn.Mish, nn.LeakyReLU)):
                setattr(module, name, nn.Identity())
    return model


def to_host_tensor(images: torch.Tensor, mesh_mapper: Any = None) -> Any:
    """(N, 3, H, W) as it is: the card itself puts the channels last."""
    return ttnn.from_torch(images, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=mesh_mapper)


def to_boxes_and_confidences(outputs: Any, mesh_composer: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Boxes (N, boxes, 1, 4) and confidences (N, boxes, classes) in float32, from (N, 1, boxes, ...)."""
    boxes, confidences = (ttnn.to_torch(each, mesh_composer=mesh_composer).float() for each in outputs)
    return boxes.permute(0, 2, 1, 3), confidences.squeeze(1)
