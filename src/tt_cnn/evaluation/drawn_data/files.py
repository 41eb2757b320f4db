# SPDX-License-Identifier: Apache-2.0
"""Images as PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tt_cnn.evaluation.optional import require


def new_folder(folder: Path | str) -> Path:
    """A folder that holds nothing yet; files that are there are never touched."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if any(path.iterdir()):
        raise FileExistsError(f"{path} is not empty; name a new folder, so that nothing there is overwritten")
    return path


def write_png(path: Path, picture: NDArray[np.uint8]) -> None:
    """A colour image (height, width, 3) or a grey one (height, width)."""
    require("PIL.Image", "writing images").fromarray(picture).save(path)
