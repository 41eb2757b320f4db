# SPDX-License-Identifier: Apache-2.0
"""YOLOv8: detection at 640x640, in the scales x and s."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from tt_cnn.models.registry import ModelEntry
from tt_cnn.models.tt_model import TtModel


def _reference(scale: str, **options: Any) -> nn.Module:
    from tt_cnn.models.yolov8.reference.model import YOLOv8

    return YOLOv8(scale, **options)


def _tt(reference: Any, device: Any, **options: Any) -> TtModel:
    from tt_cnn.models.yolov8.tt.model import TtYOLOv8

    return TtYOLOv8(reference, device, **options)


def _load_public(weights: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
    from tt_cnn.models.yolov8.reference.public_names import from_public

    return from_public(weights)


MODELS = tuple(
    ModelEntry(
        name=f"yolov8{scale}",
        title=f"YOLOv8{scale}",
        task="detection",
        reference=partial(_reference, scale),
        tt=_tt,
        gates={"predictions": 0.99},
        resolutions=((640, 640),),
        load_public=_load_public,
    )
    for scale in ("x", "s")
)
