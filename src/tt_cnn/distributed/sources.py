# SPDX-License-Identifier: Apache-2.0
"""Images by the thousand: what is sent to an actor is where one is, and the actor reads it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from tt_cnn.distributed.extra import require
from tt_cnn.evaluation.pictures import Picture, decode_picture, picture_files, read_picture

COLUMN = "image"
"""Of Parquet files: bytes of an image's file, or a struct with them in `bytes`, as Hugging Face's data sets have it."""
SUFFIX = ".parquet"


class Source(Protocol):
    @property
    def name(self) -> str:
        """No other image of a job has it."""
        ...

    def read(self) -> Picture: ...


@dataclass(frozen=True)
class PictureFile:
    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    def read(self) -> Picture:
        return read_picture(self.path)


@dataclass(frozen=True)
class PictureInParquet:
    path: Path
    group: int
    row: int
    """In its group of rows."""
    number: int
    """In the file."""

    @property
    def name(self) -> str:
        return f"{self.path.name}#{self.number}"

    def read(self) -> Picture:
        content = _images_of_group(self.path, self.group)[self.row].as_py()
        if isinstance(content, dict):
            content = content.get("bytes")
        if not isinstance(content, bytes):
            raise ValueError(f"{self.path}#{self.number}: there are no bytes of an image in its column {COLUMN!r}")
        return decode_picture(content, f"{self.path}#{self.number}")


def pictures_of(place: Path) -> list[Source]:
    """Images of a folder by name, of a Parquet file, or of a folder of Parquet files."""
    place = place.absolute()  # actors may be in another folder
    if place.is_dir():
        files = sorted(each for each in place.iterdir() if each.suffix == SUFFIX)
        if not files:
            return [PictureFile(path) for path in picture_files(place)]
    elif place.is_file() and place.suffix == SUFFIX:
        files = [place]
    else:
        raise FileNotFoundError(f"{place}: there is no such folder of images, nor a file NAME{SUFFIX}")
    return [source for file in files for source in _rows_of(file)]


def _rows_of(file: Path) -> list[Source]:
    arrow, parquet = require("pyarrow", "reading Parquet"), require("pyarrow.parquet", "reading Parquet")
    try:
        opened = parquet.ParquetFile(file)
    except (arrow.ArrowException, OSError) as error:
        raise ValueError(f"{file}: it cannot be read as Parquet ({error})") from error
    with opened:
        columns = opened.schema_arrow.names
        if COLUMN not in columns:
            raise ValueError(f"{file}: it has no column {COLUMN!r} with images' bytes; it has {', '.join(columns)}")
        sizes = [opened.metadata.row_group(group).num_rows for group in range(opened.num_row_groups)]
    rows: list[Source] = []
    for group, size in enumerate(sizes):
        before = len(rows)
        rows += [PictureInParquet(file, group, row, before + row) for row in range(size)]
    return rows


@lru_cache(maxsize=1)  # images come in their order
def _images_of_group(path: Path, group: int) -> Any:
    with require("pyarrow.parquet", "reading Parquet").ParquetFile(path) as file:
        return file.read_row_group(group, columns=[COLUMN]).column(COLUMN)
