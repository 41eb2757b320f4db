# SPDX-License-Identifier: Apache-2.0
"""Files of Google Drive, which asks questions before large ones; gdown knows the answers."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path

from tt_cnn.preprocessing.weights.fetching import HostUnreachable, check_present, finish


def fetch_from_google_drive(file_id: str, destination: Path, sha256: str = "") -> str:
    """As `fetch`, with gdown's progress. It cannot tell whether a file has changed, so it always begins again."""
    if destination.exists():
        return check_present(destination, sha256)
    try:
        gdown = importlib.import_module("gdown")
    except ImportError as error:
        raise ImportError("fetching from Google Drive needs gdown: pip install 'tt-cnn[weights]'") from error
    destination.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=f".{destination.name}.") as folder:
        came = Path(folder) / destination.name
        try:
            answer = gdown.download(id=file_id, output=str(came), resume=False)
        except OSError as error:
            raise HostUnreachable(f"Google Drive cannot be reached: {error}") from error
        except Exception as error:
            raise OSError(f"gdown could not get the file {file_id}: {error}") from error
        if answer is None or not came.is_file():
            raise OSError(f"gdown could not get the file {file_id} of Google Drive")
        return finish(came, destination, sha256)
