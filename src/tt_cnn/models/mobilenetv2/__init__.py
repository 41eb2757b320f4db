# SPDX-License-Identifier: Apache-2.0
"""MobileNetV2: classification with inverted residuals."""

from __future__ import annotations

from typing import Any

from torch import nn

from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel


def _reference(**options: Any) -> nn.Module:
    from tt_cnn.models.mobilenetv2.reference.model import MobileNetV2

    return MobileNetV2(**options)


def _tt(reference: nn.Module, device: Any, **options: Any) -> TtModel:
    from tt_cnn.models.mobilenetv2.tt.model import create_tt_mobilenetv2

    return create_tt_mobilenetv2(reference, device, **options)  # type: ignore[arg-type]


MODELS = (
    ModelEntry(
        name="mobilenetv2",
        title="MobileNetV2",
        task="classification",
        reference=_reference,
        tt=_tt,
        gates={"logits": 0.94},
        resolutions=((224, 224),),
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),
)
