# SPDX-License-Identifier: Apache-2.0
"""The drawn data sets: the same everywhere, different from one another, and as they say."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from tt_cnn.evaluation.drawn_data import Boxes, DetectionShapes, SegmentationShapes

DATA_SETS = (SegmentationShapes, DetectionShapes)


def digest(dataset: SegmentationShapes | DetectionShapes) -> str:
    found = hashlib.sha256()
    for picture, target in dataset:
        found.update(picture.tobytes())
        for part in (target.xywh, target.labels) if isinstance(target, Boxes) else (target,):
            found.update(part.tobytes())
    return found.hexdigest()[:16]


@pytest.mark.parametrize(
    ("cls", "split", "expected"),
    [
        (SegmentationShapes, "train", "cdc8be3cdcd068ef"),
        (SegmentationShapes, "val", "9541497949f952f7"),
        (DetectionShapes, "train", "c99484197b1f5258"),
        (DetectionShapes, "val", "fd0399be9bb03925"),
    ],
)
def test_pictures_are_the_same_on_every_machine(cls: type, split: str, expected: str) -> None:
    """The shipped weights were trained on these; figures are only comparable on the same pictures."""
    assert digest(cls(split, count=6)) == expected


@pytest.mark.parametrize("cls", DATA_SETS)
def test_a_picture_depends_on_seed_split_and_index_alone(cls: type) -> None:
    size = (96, 128)
    first = cls("val", size, 3)[1][0]
    assert np.array_equal(first, cls("val", size, 100)[1][0])
    for other in (cls("val", size, 3)[2], cls("train", size, 3)[1], cls("val", size, 3, seed=1)[1]):
        assert not np.array_equal(first, other[0])


@pytest.mark.parametrize("cls", DATA_SETS)
def test_arguments_are_checked(cls: type) -> None:
    dataset = cls("val", count=2)
    assert len(dataset) == 2 and len(cls("train")) > len(cls("val"))
    with pytest.raises(IndexError, match="index is 2; there are 2 images"):
        dataset[2]
    with pytest.raises(IndexError):
        dataset[-1]
    for bad in ({"split": "test"}, {"size": (16, 320)}, {"count": -1}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            cls(**bad)


@pytest.mark.parametrize("size", [(480, 640), (64, 96), (33, 41)])
def test_segmentation_gives_masks(size: tuple[int, int]) -> None:
    covered = []
    for picture, mask in SegmentationShapes("train", size, 12):
        assert picture.shape == (*size, 3) and picture.dtype == np.uint8 and picture.flags.c_contiguous
        assert mask.shape == size and mask.dtype == np.uint8 and set(np.unique(mask)) <= {0, 1}
        covered.append(mask.mean())
    assert 0.02 < np.mean(covered) < 0.4


def test_cells_are_not_told_by_brightness_alone() -> None:
    """The best threshold on any channel is far from enough."""
    pictures, masks = zip(*SegmentationShapes("val", (240, 320), 16), strict=True)
    both = either = 0
    for picture, mask in zip(pictures, masks, strict=True):
        candidates = [side for level in range(20, 240, 20) for side in _sides(picture, level)]
        best = max(candidates, key=lambda found: _iou(found, mask > 0))
        both, either = both + int((best & (mask > 0)).sum()), either + int((best | (mask > 0)).sum())
    assert both / either < 0.8


def _sides(picture: NDArray[np.uint8], level: int) -> list[NDArray[np.bool_]]:
    return [side for channel in range(3) for side in (picture[..., channel] < level, picture[..., channel] >= level)]


def _iou(found: NDArray[np.bool_], wanted: NDArray[np.bool_]) -> float:
    return float((found & wanted).sum() / max(1, (found | wanted).sum()))


@pytest.mark.parametrize("size", [(320, 320), (640, 640), (64, 128)])
def test_detection_gives_boxes_inside_the_picture(size: tuple[int, int]) -> None:
    dataset = DetectionShapes("train", size, 40 if max(size) < 640 else 8)
    labels = set()
    for picture, boxes in dataset:
        assert picture.shape == (*size, 3) and picture.dtype == np.uint8
        assert boxes.xywh.shape == (len(boxes), 4) and boxes.xywh.dtype == np.float32
        low, high = boxes.xywh[:, :2], boxes.xywh[:, :2] + boxes.xywh[:, 2:]
        assert (low >= 0).all() and (high <= size[::-1]).all() and (boxes.xywh[:, 2:] > 0).all()
        labels |= set(boxes.labels.tolist())
    assert labels == set(range(len(dataset.class_names)))


def test_a_segmentation_folder(tmp_path: Path) -> None:
    dataset = SegmentationShapes("val", (48, 64), 3)
    dataset.write(tmp_path / "made")
    for index, (picture, mask) in enumerate(dataset):
        written = [Image.open(tmp_path / "made" / kind / f"{index:06}.png") for kind in ("images", "masks")]
        assert np.array_equal(np.asarray(written[0]), picture)
        assert np.array_equal(np.asarray(written[1]), mask * 255)


def test_a_detection_folder_is_cocos(tmp_path: Path) -> None:
    dataset = DetectionShapes("val", (64, 96), 4)
    dataset.write(tmp_path)
    told = json.loads((tmp_path / "annotations.json").read_text())
    assert [each["name"] for each in told["categories"]] == list(dataset.class_names)
    for image, (picture, boxes) in zip(told["images"], dataset, strict=True):
        assert np.array_equal(np.asarray(Image.open(tmp_path / "images" / image["file_name"])), picture)
        assert (image["height"], image["width"]) == dataset.size
        mine = [each for each in told["annotations"] if each["image_id"] == image["id"]]
        assert [each["bbox"] for each in mine] == boxes.xywh.tolist()
        assert [each["category_id"] - 1 for each in mine] == boxes.labels.tolist()
        assert all(each["area"] == each["bbox"][2] * each["bbox"][3] and each["iscrowd"] == 0 for each in mine)
    assert len({each["id"] for each in told["annotations"]}) == len(told["annotations"])


@pytest.mark.parametrize("cls", DATA_SETS)
def test_nothing_is_overwritten(cls: type, tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(FileExistsError, match="is not empty"):
        cls("val", (32, 32), 1).write(tmp_path)


def test_without_pillow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"tt-cnn\[eval\]"):
        DetectionShapes("val", (32, 32), 1).write(tmp_path)
