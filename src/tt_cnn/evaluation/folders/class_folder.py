# SPDX-License-Identifier: Apache-2.0
"""Classification data: a folder for each class."""

from __future__ import annotations

from pathlib import Path

from tt_cnn.evaluation.class_names import class_number
from tt_cnn.evaluation.pictures import Picture, is_picture, read_picture


class ClassFolder:
    """`CLASS/NAME.jpg`. CLASS is the name of one of the model's classes or its number; where there are as many
    folders as classes they are matched in order, as ImageNet's are.
    """

    def __init__(self, folder: Path, names: tuple[str, ...]) -> None:
        self.class_names = names
        folders = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
        self.files = [
            (path, number)
            for number, each in _numbered(folders, names, folder)
            for path in sorted(each.iterdir())
            if is_picture(path)
        ]
        if not self.files:
            raise ValueError(f"{folder}: there is no image in its folders")

    def __len__(self) -> int:
        return len(self.files)

    def name(self, index: int) -> str:
        path, _ = self.files[index]
        return f"{path.parent.name}_{path.stem}"

    def __getitem__(self, index: int) -> tuple[Picture, int]:
        path, number = self.files[index]
        return read_picture(path), number


def has_class_folders(folder: Path) -> bool:
    return any(path.is_dir() and any(map(is_picture, path.iterdir())) for path in folder.iterdir())


def _numbered(folders: list[Path], names: tuple[str, ...], folder: Path) -> list[tuple[int, Path]]:
    numbers = [class_number(path.name, names) for path in folders]
    known = [(number, path) for number, path in zip(numbers, folders, strict=True) if number is not None]
    if len(known) == len(folders):
        return known
    if len(folders) == len(names):
        return list(enumerate(folders))
    unknown = [path.name for path, number in zip(folders, numbers, strict=True) if number is None]
    raise ValueError(
        f"{folder}: {', '.join(unknown[:3])} is not one of the model's {len(names)} classes; name the folders as the "
        "classes are called, or by their numbers"
    )
