# SPDX-License-Identifier: Apache-2.0
"""Pictures in files: what is read is what one sees."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tt_cnn.evaluation import optional
from tt_cnn.evaluation.pictures import picture_files, read_mask, read_picture, write_picture


def test_what_is_written_is_read(tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (7, 9, 3), dtype=np.uint8)
    write_picture(tmp_path / "one.png", picture)
    assert np.array_equal(read_picture(tmp_path / "one.png"), picture)


def test_gray_is_three_times_the_same_and_transparency_is_white(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 2), 77, np.uint8)).save(tmp_path / "gray.png")
    assert np.all(read_picture(tmp_path / "gray.png") == 77)
    clear = np.zeros((2, 2, 4), np.uint8)
    clear[0, 0] = (10, 20, 30, 255)
    Image.fromarray(clear).save(tmp_path / "clear.png")
    read = read_picture(tmp_path / "clear.png")
    assert read[0, 0].tolist() == [10, 20, 30] and read[1, 1].tolist() == [255, 255, 255]


def test_pictures_are_turned_as_the_camera_says(tmp_path: Path) -> None:
    wide = np.zeros((2, 4, 3), np.uint8)
    wide[0, 0] = 255  # the upper left corner
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    Image.fromarray(wide).save(tmp_path / "turned.png", exif=exif)
    read = read_picture(tmp_path / "turned.png")
    assert read.shape == (4, 2, 3) and read[0, 1].tolist() == [255, 255, 255]


@pytest.mark.parametrize("shape", [(3, 3), (3, 3, 3)])
def test_masks_are_what_is_not_black(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.zeros(shape, np.uint8)
    values[1, 1] = 255
    values[2, 2] = 1
    Image.fromarray(values).save(tmp_path / "mask.png")
    assert read_mask(tmp_path / "mask.png").tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_files_of_a_folder_come_by_name(tmp_path: Path) -> None:
    for name in ("b.PNG", "a.jpg", "notes.txt", ".hidden.png"):
        (tmp_path / name).touch()
    assert [path.name for path in picture_files(tmp_path)] == ["a.jpg", "b.PNG"]
    assert picture_files(tmp_path / "a.jpg") == [tmp_path / "a.jpg"]


def test_mistakes_are_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere: there is no such file or folder"):
        picture_files(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="there is no image in it"):
        picture_files(tmp_path)
    (tmp_path / "broken.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"broken\.png: it cannot be read as an image"):
        read_picture(tmp_path / "broken.png")
    with pytest.raises(FileNotFoundError, match="there is no such image"):
        read_picture(tmp_path / "missing.png")


def test_a_missing_package_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(optional.importlib, "import_module", missing)
    with pytest.raises(ImportError, match=r"reading images needs the package of 'PIL'.*pip install 'tt-cnn\[eval\]'"):
        read_picture(tmp_path / "one.png")
