# SPDX-License-Identifier: Apache-2.0
"""A prediction as a row of a table, and as COCO's format has it: one class for each task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tt_cnn.distributed.extra import require as require_ray
from tt_cnn.evaluation.detections import Detections
from tt_cnn.evaluation.optional import require

MOST_CLASSES = 5
"""Of a classifier: the likeliest."""
Row = dict[str, Any]


class Rows(ABC):
    """`image`, `width` and `height` are in every row."""

    in_coco = True
    """Whether COCO's format has a place for such predictions."""

    @abstractmethod
    def row(self, prediction: Any, names: Sequence[str]) -> Row: ...

    @abstractmethod
    def columns(self, arrow: Any) -> list[tuple[str, Any]]:
        """Their names and types."""

    def schema(self) -> Any:
        arrow = require_ray("pyarrow", "writing predictions")
        common = [("image", arrow.string()), ("width", arrow.int32()), ("height", arrow.int32())]
        return arrow.schema(common + self.columns(arrow))

    def annotations(self, row: Row) -> list[Row]:
        """COCO's, without numbers of images and of themselves."""
        raise NotImplementedError


class ClassRows(Rows):
    """The likeliest classes, the first first."""

    in_coco = False

    def row(self, prediction: torch.Tensor, names: Sequence[str]) -> Row:
        values, numbers = prediction.topk(min(MOST_CLASSES, len(prediction)))
        classes = numbers.tolist()
        return {"classes": classes, "names": [names[each] for each in classes], "probabilities": values.tolist()}

    def columns(self, arrow: Any) -> list[tuple[str, Any]]:
        return [
            ("classes", arrow.list_(arrow.int32())),
            ("names", arrow.list_(arrow.string())),
            ("probabilities", arrow.list_(arrow.float32())),
        ]


class BoxRows(Rows):
    """Objects, the most confident first; boxes are left, top, width, height in pixels."""

    def row(self, prediction: Detections, names: Sequence[str]) -> Row:
        corners = prediction.corners
        classes = prediction.classes.tolist()
        return {
            "classes": classes,
            "names": [names[each] for each in classes],
            "scores": prediction.scores.tolist(),
            "boxes": torch.cat((corners[:, :2], corners[:, 2:] - corners[:, :2]), dim=1).tolist(),
        }

    def columns(self, arrow: Any) -> list[tuple[str, Any]]:
        return [
            ("classes", arrow.list_(arrow.int32())),
            ("names", arrow.list_(arrow.string())),
            ("scores", arrow.list_(arrow.float32())),
            ("boxes", arrow.list_(arrow.list_(arrow.float32()))),
        ]

    def annotations(self, row: Row) -> list[Row]:
        found = zip(row["classes"], row["scores"], row["boxes"], strict=True)
        return [
            {"category_id": number, "bbox": box, "score": score, "area": box[2] * box[3], "iscrowd": 0}
            for number, score, box in found
        ]


class MaskRows(Rows):
    """COCO's compressed runs of the mask, for `pycocotools.mask.decode`."""

    def row(self, prediction: torch.Tensor, names: Sequence[str]) -> Row:
        mask = require("pycocotools.mask", "writing masks")
        encoded = mask.encode(np.asfortranarray(prediction.numpy().astype(np.uint8)))
        return {"name": names[0], "runs": encoded["counts"].decode("ascii"), "pixels": int(prediction.sum())}

    def columns(self, arrow: Any) -> list[tuple[str, Any]]:
        return [("name", arrow.string()), ("runs", arrow.string()), ("pixels", arrow.int64())]

    def annotations(self, row: Row) -> list[Row]:
        if not row["pixels"]:
            return []
        size = [row["height"], row["width"]]
        segmentation = {"size": size, "counts": row["runs"]}
        box = require("pycocotools.mask", "writing masks").toBbox({**segmentation, "counts": row["runs"].encode()})
        return [
            {"category_id": 0, "segmentation": segmentation, "bbox": box.tolist(), "area": row["pixels"], "iscrowd": 0}
        ]


ROWS: dict[str, Rows] = {"classification": ClassRows(), "detection": BoxRows(), "segmentation": MaskRows()}
