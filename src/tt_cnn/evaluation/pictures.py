# SPDX-License-Identifier: Apache-2.0
"""Images in files: found, read, written."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tt_cnn.evaluation.optional import require

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".webp")
Picture = npt.NDArray[np.uint8]
"""(height, width, 3), red first."""


def is_picture(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES and not path.name.startswith(".")


def picture_files(path: Path) -> list[Path]:
    """The file itself, or the images of a folder by name."""
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file or folder")
    if path.is_file():
        return [path]
    found = sorted(each for each in path.iterdir() if each.is_file() and is_picture(each))
    if not found:
        raise ValueError(f"{path}: there is no image in it (looked for {', '.join(SUFFIXES)})")
    return found


def read_picture(path: Path) -> Picture:
    """As people see it: turned as its EXIF says, three channels, what is transparent on white."""
    try:
        return _decoded(path, str(path))
    except ValueError as error:
        if not path.exists():
            raise FileNotFoundError(f"{path}: there is no such image") from error
        raise


def decode_picture(content: bytes, name: str) -> Picture:
    """An image's file in memory, as `read_picture` gives it. Errors call it `name`."""
    return _decoded(io.BytesIO(content), name)


def _decoded(file: Path | io.BytesIO, name: str) -> Picture:
    image_module, ops = require("PIL.Image", "reading images"), require("PIL.ImageOps", "reading images")
    try:
        with image_module.open(file) as opened:
            upright = ops.exif_transpose(opened)
            if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
                upright = upright.convert("RGBA")
                white = image_module.new("RGBA", upright.size, "white")
                upright = image_module.alpha_composite(white, upright)
            return np.array(upright.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError) as error:
        raise ValueError(f"{name}: it cannot be read as an image ({_without_address(error)})") from error


def _without_address(error: Exception) -> str:
    """Pillow names files in memory by their address."""
    return re.sub(r" <_io\.BytesIO object at 0x[0-9a-f]+>", "", str(error))


def read_mask(path: Path) -> Picture:
    """(height, width): 1 where the image is not black."""
    image_module = require("PIL.Image", "reading masks")
    with image_module.open(path) as opened:
        values = np.array(opened)
    if values.ndim == 3:
        values = values[..., :3].max(axis=2)
    return (values > 0).astype(np.uint8)


def write_picture(path: Path, picture: Picture) -> None:
    require("PIL.Image", "writing images").fromarray(picture).save(path, optimize=True)
