# SPDX-License-Identifier: Apache-2.0
"""The folder where weights are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from tt_cnn.cache_folder import place, replacing
from tt_cnn.preprocessing.weights.checksums import sha256_of


def cache_folder() -> Path:
    """$TT_CNN_CACHE/weights, or ~/.cache/tt-cnn/weights; it may not exist yet, or be shared: weights are only data."""
    return place("weights")


def keep(path: Path, destination: Path) -> None:
    """Copy a file to a place where there is none yet; the same file being there is fine."""
    if destination.exists():
        refuse_to_overwrite(path, destination)
        return
    with replacing(destination) as beside:
        shutil.copyfile(path, beside)


def refuse_to_overwrite(path: Path, destination: Path) -> None:
    if not path.samefile(destination) and sha256_of(path) != sha256_of(destination):
        raise FileExistsError(
            f"{destination} is there already and differs from {path}; move it away first, nothing is overwritten"
        )
