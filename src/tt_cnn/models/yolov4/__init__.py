# SPDX-License-Identifier: Apache-2.0
"""YOLOv4: detection at 320x320 and 640x640."""

from pathlib import Path
from typing import Any

from tt_cnn.models.registry import ModelEntry, ShippedWeights
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.models.yolov4.reference.public_names import from_public


def _on_card(*args: Any, **options: Any) -> Any:
    from tt_cnn.models.yolov4.tt.model import TtYOLOv4

    return TtYOLOv4(*args, **options)


MODELS = (
    ModelEntry(
        name="yolov4",
        title="YOLOv4",
        task="detection",
        reference=YOLOv4,
        tt=_on_card,
        gates={"boxes": 0.99, "confidences": 0.9},
        resolutions=((320, 320), (640, 640)),
        shipped=ShippedWeights(
            Path(__file__).parent / "weights" / "yolov4_quarter.safetensors", {"classes": 4, "width": 0.25}
        ),
        load_public=from_public,
    ),
)
