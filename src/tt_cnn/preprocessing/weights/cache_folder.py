"""The folder where weights are kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from tt_cnn.preprocessing.weights.checksums import sha256_of

VARIABLE = "TT_CNN_CACHE"


def cache_folder() -> Path:
    """$TT_CNN_CACHE/weights, or ~/.cache/tt-cnn/weights; it may not exist yet."""
    root = os.environ.get(VARIABLE)
    return (Path(root) if root else Path.home() / ".cache" / "tt-cnn") / "weights"


def keep(path: Path, destination: Path) -> None:
    """Copy a file to a place where there is none yet; the same file being there is fine."""
    if destination.exists():
        refuse_to_overwrite(path, destination)
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=destination.parent, prefix=f".{destination.name}.")
    os.close(handle)
    try:
        shutil.copyfile(path, name)
        os.replace(name, destination)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def refuse_to_overwrite(path: Path, destination: Path) -> None:
    if not path.samefile(destination) and sha256_of(path) != sha256_of(destination):
        raise FileExistsError(
            f"{destination} is there already and differs from {path}; move it away first, nothing is overwritten"
        )
