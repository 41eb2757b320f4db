# SPDX-License-Identifier: Apache-2.0
"""Mean average precision as COCO defines it, counted by pycocotools."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

from tt_cnn.evaluation.detections import Detections
from tt_cnn.evaluation.drawn_data.targets import Boxes
from tt_cnn.evaluation.optional import require

FIGURES = {"mAP": 0, "mAP50": 1, "mAP75": 2}
"""Which of COCO's twelve figures is which: over IoU 0.5 to 0.95, at 0.5, at 0.75."""


class MeanAveragePrecision:
    """Detections of all images against the true boxes; targets may have `crowd` and `areas`, as COCO's have."""

    def __init__(self, classes: int) -> None:
        self.coco = require("pycocotools.coco", "mean average precision")
        self.evaluation = require("pycocotools.cocoeval", "mean average precision")
        self.classes = classes
        self.pictures = 0
        self.true: list[dict[str, Any]] = []
        self.found: list[dict[str, Any]] = []

    def add(self, prediction: Detections, target: Boxes) -> None:
        self.pictures += 1
        areas = getattr(target, "areas", None)
        crowd = getattr(target, "crowd", None)
        for index, (box, label) in enumerate(zip(target.xywh.tolist(), target.labels.tolist(), strict=True)):
            self.true.append(
                {
                    "id": len(self.true) + 1,
                    "image_id": self.pictures,
                    "category_id": label,
                    "bbox": box,
                    "area": box[2] * box[3] if areas is None else float(areas[index]),
                    "iscrowd": 0 if crowd is None else int(crowd[index]),
                }
            )
        for corners, score, label in zip(
            prediction.corners.tolist(), prediction.scores.tolist(), prediction.classes.tolist(), strict=True
        ):
            left, top, right, bottom = corners
            box = [left, top, right - left, bottom - top]
            self.found.append({"image_id": self.pictures, "category_id": label, "bbox": box, "score": score})

    def results(self) -> dict[str, float]:
        if not self.true:
            return dict.fromkeys(FIGURES, 0.0)
        with contextlib.redirect_stdout(io.StringIO()):  # pycocotools prints its tables
            true = self.coco.COCO()
            true.dataset = {
                "info": {},
                "images": [{"id": number + 1} for number in range(self.pictures)],
                "categories": [{"id": number, "name": str(number)} for number in range(self.classes)],
                "annotations": self.true,
            }
            true.createIndex()
            if not self.found:
                return dict.fromkeys(FIGURES, 0.0)
            judged = self.evaluation.COCOeval(true, true.loadRes(self.found), "bbox")
            judged.evaluate()
            judged.accumulate()
            judged.summarize()
        return {name: 100 * max(0.0, float(np.asarray(judged.stats)[place])) for name, place in FIGURES.items()}
