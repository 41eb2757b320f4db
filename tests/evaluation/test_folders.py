# SPDX-License-Identifier: Apache-2.0
"""Data sets in folders, in all layouts that are understood."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.evaluation.stand_ins import DETECTOR, SEGMENTER
from tt_cnn.evaluation.chosen_data import data_set
from tt_cnn.evaluation.class_names import COCO, class_names, class_number, imagenet
from tt_cnn.evaluation.drawn_data import DetectionShapes, SegmentationShapes
from tt_cnn.evaluation.folders import ClassFolder, CocoFolder, MaskFolder, photographs


def save(path: Path, value: int = 0, size: tuple[int, int] = (4, 6)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((*size, 3), value, np.uint8)).save(path)


def test_generated_detection_data_is_read_as_it_was_written(tmp_path: Path) -> None:
    drawn = DetectionShapes("val", size=(64, 96), count=3)
    drawn.write(tmp_path / "set")
    read = CocoFolder(tmp_path / "set", drawn.class_names)
    assert len(read) == 3
    for index in range(3):
        (picture, boxes), (again, target) = drawn[index], read[index]
        assert np.array_equal(picture, again)
        assert np.allclose(boxes.xywh, target.xywh) and np.array_equal(boxes.labels, target.labels)
        assert not target.crowd.any()


def test_generated_segmentation_data_is_read_as_it_was_written(tmp_path: Path) -> None:
    drawn = SegmentationShapes("val", size=(48, 64), count=2)
    drawn.write(tmp_path / "set")
    read = MaskFolder(tmp_path / "set")
    assert [read.name(index) for index in range(len(read))] == ["000000", "000001"]
    for index in range(2):
        for ours, theirs in zip(drawn[index], read[index], strict=True):
            assert np.array_equal(ours, theirs)


def coco(images: list[str], categories: dict[int, str], annotations: list[dict[str, Any]]) -> str:
    return json.dumps(
        {
            "images": [{"id": number, "file_name": name} for number, name in enumerate(images)],
            "categories": [{"id": number, "name": name} for number, name in categories.items()],
            "annotations": annotations,
        }
    )


def test_coco_s_own_layout_and_what_its_annotations_hold(tmp_path: Path) -> None:
    save(tmp_path / "val2017" / "a.jpg")
    (tmp_path / "annotations").mkdir()
    boxes = [
        {"image_id": 0, "category_id": 3, "bbox": [1, 1, 2, 2], "area": 3.5, "iscrowd": 0},
        {"image_id": 0, "category_id": 90, "bbox": [0, 0, 6, 4], "area": 20, "iscrowd": 1},
    ]
    (tmp_path / "annotations" / "instances_val2017.json").write_text(
        coco(["a.jpg"], {3: "car", 90: "toothbrush"}, boxes)
    )
    (tmp_path / "annotations" / "instances_train2017.json").write_text("{}")
    read = CocoFolder(tmp_path, COCO)
    _, target = read[0]
    assert [COCO[label] for label in target.labels] == ["car", "toothbrush"]
    assert target.areas.tolist() == [3.5, 20] and target.crowd.tolist() == [0, 1]


def test_categories_go_by_name_and_else_by_order(tmp_path: Path) -> None:
    (tmp_path / "annotations.json").write_text(coco([], {7: "star", 9: "disc"}, []))
    assert CocoFolder(tmp_path, ("disc", "square", "star")).class_of == {7: 2, 9: 0}
    assert CocoFolder(tmp_path, ("class 0", "class 1")).class_of == {7: 0, 9: 1}
    with pytest.raises(ValueError, match=r"its 2 categories are not the model's 80 classes.*star, disc"):
        CocoFolder(tmp_path, COCO)


def test_masks_beside_their_pictures(tmp_path: Path) -> None:
    for case in ("one", "two"):
        save(tmp_path / case / "scan_1.tif")
        save(tmp_path / case / "scan_1_mask.tif", 255)
    save(tmp_path / "one" / "alone.tif")
    read = MaskFolder(tmp_path)
    assert len(read) == 2
    assert read[1][1].tolist() == np.ones((4, 6)).tolist()


def test_folders_of_classes_by_name_number_and_order(tmp_path: Path) -> None:
    save(tmp_path / "names" / "Traffic_Light" / "a.png", 1)
    save(tmp_path / "names" / "0" / "b.png", 2)
    read = ClassFolder(tmp_path / "names", COCO)
    assert {(int(picture[0, 0, 0]), label) for picture, label in (read[0], read[1])} == {(1, 9), (2, 0)}
    for name in ("n01", "n02"):
        save(tmp_path / "order" / name / "a.png")
    ordered = ClassFolder(tmp_path / "order", ("tench", "goldfish"))
    assert [ordered[index][1] for index in range(2)] == [0, 1]
    with pytest.raises(ValueError, match="n01, n02 is not one of the model's 80 classes"):
        ClassFolder(tmp_path / "order", COCO)


def test_names_of_well_known_classes() -> None:
    assert len(COCO) == len(set(COCO)) == 80 and COCO[16] == "dog"
    assert len(imagenet()) == 1000 and imagenet()[281] == "tabby"
    assert class_names(80) == COCO and class_names(1000) == imagenet() and class_names(2) == ("class 0", "class 1")
    assert class_number("Fire-Hydrant", COCO) == 10 and class_number("80", COCO) is None


def test_photographs_are_real_pictures() -> None:
    data = photographs()
    assert len(data) == 8
    assert "chelsea" in [data.name(index) for index in range(len(data))]
    picture, target = data[0]
    assert picture.dtype == np.uint8 and picture.shape[2] == 3 and target is None


@pytest.mark.parametrize(
    ("entry", "data", "words"),
    [
        (DETECTOR, "nowhere", "there is no such folder; beside folders there are generated and skimage"),
        (DETECTOR, ".", "there is no annotations.json in it"),
        (SEGMENTER, ".", "there are no images with masks in it"),
    ],
)
def test_mistakes_are_told(tmp_path: Path, monkeypatch: Any, entry: Any, data: str, words: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises((FileNotFoundError, ValueError), match=words):
        data_set(entry, data, ("a",), count=1, resolution=(64, 64))


def test_broken_annotations_and_lost_pictures_are_told(tmp_path: Path) -> None:
    (tmp_path / "annotations.json").write_text("[]")
    with pytest.raises(ValueError, match="not annotations in COCO's format"):
        CocoFolder(tmp_path, COCO)
    (tmp_path / "annotations.json").write_text(coco(["lost.png"], {}, []))
    with pytest.raises(FileNotFoundError, match=r"lost\.png: .*annotations\.json names it"):
        CocoFolder(tmp_path, COCO)[0]
    save(tmp_path / "masks" / "a.png")
    save(tmp_path / "images" / "b.png")
    with pytest.raises(FileNotFoundError, match=r"there is no mask for b\.png"):
        MaskFolder(tmp_path)
