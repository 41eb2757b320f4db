# SPDX-License-Identifier: Apache-2.0
"""The data set that a user means: a folder, a name, or nothing at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tt_cnn.evaluation.drawn_data import DetectionShapes, SegmentationShapes
from tt_cnn.evaluation.folders import ClassFolder, CocoFolder, MaskFolder, PicturesAlone, photographs
from tt_cnn.evaluation.folders.class_folder import has_class_folders
from tt_cnn.evaluation.pictures import Picture
from tt_cnn.models import ModelEntry

GENERATED, SKIMAGE = "generated", "skimage"
_DRAWN: dict[str, type[SegmentationShapes] | type[DetectionShapes]] = {
    "segmentation": SegmentationShapes,
    "detection": DetectionShapes,
}


class DataSet(Protocol):
    """(image, target) by index; a target of None is unknown."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> tuple[Picture, Any]: ...


def generated_names(entry: ModelEntry) -> tuple[str, ...]:
    """The classes of the generated set for the model's task; none where there is no such set."""
    return _DRAWN[entry.task].class_names if entry.task in _DRAWN else ()


def data_set(
    entry: ModelEntry, data: str | None, names: tuple[str, ...], *, count: int, resolution: tuple[int, int]
) -> tuple[DataSet, str]:
    """The data set, and what to call it. `names` are the model's classes.

    Nothing means the images that the project draws itself, or scikit-image's photographs for a classifier.
    """
    wanted = data or (GENERATED if entry.task in _DRAWN else SKIMAGE)
    if wanted == GENERATED:
        if entry.task not in _DRAWN:
            raise ValueError(f"no images are generated for {entry.task}; name a folder, or {SKIMAGE}")
        return _DRAWN[entry.task]("val", size=resolution, count=count), "generated images"
    if wanted == SKIMAGE:
        return photographs(names), "photographs of scikit-image"
    return _in_folder(entry, Path(wanted), names), str(wanted)


def _in_folder(entry: ModelEntry, folder: Path, names: tuple[str, ...]) -> DataSet:
    if not folder.is_dir():
        raise FileNotFoundError(
            f"{folder}: there is no such folder; beside folders there are {GENERATED} and {SKIMAGE}"
        )
    if entry.task == "detection":
        return CocoFolder(folder, names)
    if entry.task == "segmentation":
        return MaskFolder(folder, names)
    return ClassFolder(folder, names) if has_class_folders(folder) else PicturesAlone.of(folder, names)


def name_of(data: DataSet, index: int) -> str:
    return data.name(index) if hasattr(data, "name") else f"{index:04}"
