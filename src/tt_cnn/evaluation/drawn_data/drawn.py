# SPDX-License-Identifier: Apache-2.0
"""What the drawn data sets share: splits, sizes, indices, and folders of files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Generic, Literal, TypeVar, get_args

import numpy as np

from tt_cnn.evaluation.drawn_data.targets import Picture

Split = Literal["train", "val"]

FIRST_INDEX = {"train": 0, "val": 1 << 30}
"""Images have one numbering; the splits are ranges of it that never meet."""

Target = TypeVar("Target")


class DrawnPictures(ABC, Generic[Target]):
    """A sequence of (image, target), each drawn when asked for, from the seed and its index alone."""

    class_names: ClassVar[tuple[str, ...]]
    default_size: ClassVar[tuple[int, int]]
    default_count: ClassVar[dict[str, int]]
    stream: ClassVar[int]
    """Tells the data sets' random numbers apart."""

    def __init__(
        self, split: Split = "val", size: tuple[int, int] | None = None, count: int | None = None, seed: int = 0
    ) -> None:
        """`size` is (height, width); `count` how many images of the split there are."""
        if split not in get_args(Split):
            raise ValueError(f"split is {split!r}; it must be {' or '.join(map(repr, get_args(Split)))}")
        self.split = split
        self.size = self.default_size if size is None else size
        self.count = self.default_count[split] if count is None else count
        self.seed = seed
        if min(self.size) < 32:
            raise ValueError(f"size is {self.size}; height and width must be at least 32")
        if not 0 <= self.count <= FIRST_INDEX["val"]:
            raise ValueError(f"count is {self.count}; it must be between 0 and {FIRST_INDEX['val']}")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Picture, Target]:
        """(uint8 RGB image (height, width, 3), its target)."""
        if not 0 <= index < self.count:
            raise IndexError(f"index is {index}; there are {self.count} images")
        return self.draw(np.random.default_rng([self.seed, self.stream, FIRST_INDEX[self.split] + index]))

    def __iter__(self) -> Iterator[tuple[Picture, Target]]:
        return (self[index] for index in range(self.count))

    @abstractmethod
    def draw(self, random: np.random.Generator) -> tuple[Picture, Target]:
        """One image and its target; `random` is the only source of chance."""

    @abstractmethod
    def write(self, folder: Path | str) -> None:
        """All images and targets as files in a new or empty folder."""
