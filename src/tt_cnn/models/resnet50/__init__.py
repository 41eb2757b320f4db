# SPDX-License-Identifier: Apache-2.0
"""ResNet50: which of 1000 classes an image shows."""

from __future__ import annotations

from typing import Any

from torch import nn

from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel


def _reference(**options: Any) -> nn.Module:
    from tt_cnn.models.resnet50.reference.model import ResNet50

    return ResNet50(**options)


def _tt(reference: nn.Module, device: Any, **options: Any) -> TtModel:
    from tt_cnn.models.resnet50.tt.model import TtResNet50

    return TtResNet50(reference, device, **options)  # type: ignore[arg-type]


MODELS = (
    ModelEntry(
        name="resnet50",
        title="ResNet50",
        task="classification",
        reference=_reference,
        tt=_tt,
        gates={"logits": 0.98},
        resolutions=((224, 224),),
        batch_sizes=(1, 8, 16),
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),
)
