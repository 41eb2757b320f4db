# SPDX-License-Identifier: Apache-2.0
"""Detection data in COCO's format."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tt_cnn.evaluation.drawn_data.targets import Boxes
from tt_cnn.evaluation.pictures import Picture, read_picture


@dataclass(frozen=True)
class CocoBoxes(Boxes):
    """With what COCO's figures also look at."""

    areas: NDArray[np.float32]
    """Of the objects, not of their boxes: COCO sorts small from large by them."""
    crowd: NDArray[np.int64]
    """1 where a box holds a crowd: finding it is neither right nor wrong."""


class CocoFolder:
    """Images and `annotations.json`, or COCO's own layout (`annotations/instances_val2017.json`, `val2017/*.jpg`).

    `names` are the classes of the model; categories are matched with them by name, or by their order where there
    are as many.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.folder = folder
        self.file = annotations_file(folder)
        try:
            content = json.loads(self.file.read_text(encoding="utf-8"))
            self.pictures = sorted(content["images"], key=lambda each: each["id"])
            categories = sorted(content["categories"], key=lambda each: each["id"])
            self.annotations: dict[int, list[dict[str, Any]]] = {each["id"]: [] for each in self.pictures}
            for annotation in content["annotations"]:
                self.annotations[annotation["image_id"]].append(annotation)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.file}: not annotations in COCO's format ({error!r})") from error
        self.class_names = names
        self.class_of = _classes(categories, names, self.file)

    def __len__(self) -> int:
        return len(self.pictures)

    def name(self, index: int) -> str:
        return Path(self.pictures[index]["file_name"]).stem

    def __getitem__(self, index: int) -> tuple[Picture, CocoBoxes]:
        known = self.pictures[index]
        objects = self.annotations[known["id"]]
        boxes = CocoBoxes(
            xywh=np.array([each["bbox"] for each in objects], np.float32).reshape(-1, 4),
            labels=np.array([self.class_of[each["category_id"]] for each in objects], np.int64),
            areas=np.array([each.get("area", each["bbox"][2] * each["bbox"][3]) for each in objects], np.float32),
            crowd=np.array([each.get("iscrowd", 0) for each in objects], np.int64),
        )
        return read_picture(self._path(known["file_name"])), boxes

    def _path(self, name: str) -> Path:
        split = self.file.stem.rpartition("_")[2]
        places = [self.folder / name, self.folder / "images" / name, self.folder / split / name]
        found = next((path for path in places if path.exists()), None)
        if found is None:
            tried = ", ".join(str(path.parent) for path in places)
            raise FileNotFoundError(f"{name}: {self.file} names it, but it is in none of {tried}")
        return found


def annotations_file(folder: Path) -> Path:
    """The one that is there; several are a question that we do not answer by guessing."""
    if (folder / "annotations.json").exists():
        return folder / "annotations.json"
    found = sorted((folder / "annotations").glob("instances_*.json"))
    found = [path for path in found if (folder / path.stem.rpartition("_")[2]).is_dir()] or found
    if len(found) == 1:
        return found[0]
    if found:
        listed = ", ".join(path.name for path in found)
        raise ValueError(f"{folder}: there are several annotations ({listed}); keep one, or name it annotations.json")
    raise FileNotFoundError(
        f"{folder}: there is no annotations.json in it (nor annotations/instances_*.json); a detector is evaluated on "
        "images with annotations in COCO's format"
    )


def _classes(categories: list[dict[str, Any]], names: tuple[str, ...], file: Path) -> dict[int, int]:
    numbers = {name: number for number, name in enumerate(names)}
    if all(category["name"] in numbers for category in categories):
        return {category["id"]: numbers[category["name"]] for category in categories}
    if len(categories) == len(names):
        return {category["id"]: number for number, category in enumerate(categories)}
    unknown = [category["name"] for category in categories if category["name"] not in numbers]
    raise ValueError(
        f"{file}: its {len(categories)} categories are not the model's {len(names)} classes; the model does not know "
        + ", ".join(unknown[:5])
        + (" and others" if len(unknown) > 5 else "")
    )
