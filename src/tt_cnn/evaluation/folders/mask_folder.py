# SPDX-License-Identifier: Apache-2.0
"""Segmentation data: a mask for each image."""

from __future__ import annotations

from pathlib import Path

from tt_cnn.evaluation.drawn_data.targets import Mask
from tt_cnn.evaluation.pictures import Picture, is_picture, picture_files, read_mask, read_picture

MARK = "_mask"


class MaskFolder:
    """`images/NAME.png` with `masks/NAME.png`, or `NAME.tif` beside `NAME_mask.tif`, in any depth of folders.

    A mask is 0 where nothing is; anything else is the object.
    """

    def __init__(self, folder: Path, names: tuple[str, ...] = ("object",)) -> None:
        if not folder.is_dir():
            raise FileNotFoundError(f"{folder}: there is no such folder")
        self.class_names = names
        self.pairs = _in_two_folders(folder) if (folder / "masks").is_dir() else _side_by_side(folder)
        if not self.pairs:
            raise ValueError(
                f"{folder}: there are no images with masks in it; a segmenter is evaluated on images/NAME.png with "
                f"masks/NAME.png, or on NAME.tif beside NAME{MARK}.tif"
            )

    def __len__(self) -> int:
        return len(self.pairs)

    def name(self, index: int) -> str:
        return self.pairs[index][0].stem

    def __getitem__(self, index: int) -> tuple[Picture, Mask]:
        picture_file, mask_file = self.pairs[index]
        picture, mask = read_picture(picture_file), read_mask(mask_file)
        if picture.shape[:2] != mask.shape:
            raise ValueError(f"{mask_file} is {mask.shape}; its image is {picture.shape[:2]} (height, width)")
        return picture, mask


def _in_two_folders(folder: Path) -> list[tuple[Path, Path]]:
    pictures = folder / "images"
    if not pictures.is_dir():
        raise FileNotFoundError(f"{folder}: there is a folder of masks in it, but none of images")
    masks = {path.stem: path for path in picture_files(folder / "masks")}
    files = picture_files(pictures)
    missing = [path.name for path in files if path.stem not in masks]
    if missing:
        raise FileNotFoundError(f"{folder / 'masks'}: there is no mask for {', '.join(missing[:3])}")
    return [(path, masks[path.stem]) for path in files]


def _side_by_side(folder: Path) -> list[tuple[Path, Path]]:
    masks = sorted(path for path in folder.rglob(f"*{MARK}.*") if is_picture(path))
    pairs = [(path.with_name(path.name.replace(MARK, "")), path) for path in masks]
    return [(picture, mask) for picture, mask in pairs if picture.exists()]
