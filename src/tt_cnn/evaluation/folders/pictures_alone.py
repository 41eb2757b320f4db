# SPDX-License-Identifier: Apache-2.0
"""Images without annotations: there the card is compared with the reference."""

from __future__ import annotations

from pathlib import Path

from tt_cnn.evaluation.optional import require
from tt_cnn.evaluation.pictures import Picture, picture_files, read_picture

PHOTOGRAPHS = (
    *("astronaut.png", "camera.png", "chelsea.png", "coffee.png", "coins.png"),
    *("motorcycle_left.png", "motorcycle_right.png", "rocket.jpg"),
)
"""Photographs of things, among the images that scikit-image carries in its package. The textures, scans, skies and
medical images beside them show nothing that ImageNet has a class for: there a classifier guesses.
"""


class PicturesAlone:
    """(image, None) of files, or of a folder's images."""

    def __init__(self, files: list[Path], names: tuple[str, ...] = ()) -> None:
        self.files = files
        self.class_names = names

    @classmethod
    def of(cls, path: Path, names: tuple[str, ...] = ()) -> PicturesAlone:
        return cls(picture_files(path), names)

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        return self.files[index].stem

    def __getitem__(self, index: int) -> tuple[Picture, None]:
        return read_picture(self.files[index]), None


def photographs(names: tuple[str, ...] = ()) -> PicturesAlone:
    """Real photographs, from scikit-image."""
    package = Path(require("skimage", "the set of photographs").__file__).parent / "data"
    files = [package / name for name in PHOTOGRAPHS if (package / name).exists()]
    if not files:
        raise FileNotFoundError(f"{package}: this version of scikit-image carries none of the photographs")
    return PicturesAlone(files, names)
