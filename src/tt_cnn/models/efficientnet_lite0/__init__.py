# SPDX-License-Identifier: Apache-2.0
"""EfficientNet-Lite0: classification with inverted residuals, with public ImageNet weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel


def _reference(**options: Any) -> nn.Module:
    from tt_cnn.models.efficientnet_lite0.reference.model import EfficientNetLite0

    return EfficientNetLite0(**options)


def _tt(reference: nn.Module, device: Any, **options: Any) -> TtModel:
    from tt_cnn.models.efficientnet_lite0.tt.model import create_tt_efficientnet_lite0

    return create_tt_efficientnet_lite0(reference, device, **options)  # type: ignore[arg-type]


def _from_public(weights: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    from tt_cnn.models.efficientnet_lite0.reference.imagenet import from_public

    return from_public(weights)


MODELS = (
    ModelEntry(
        name="efficientnet_lite0",
        title="EfficientNet-Lite0",
        task="classification",
        reference=_reference,
        tt=_tt,
        gates={"logits": 0.98},
        resolutions=((224, 224),),
        mean=(127 / 255,) * 3,
        std=(128 / 255,) * 3,
        load_public=_from_public,
        aliases=("efficientnet-lite0",),
    ),
)
