# SPDX-License-Identifier: Apache-2.0
"""The user's own inputs for the guard: a folder of images, or a file of tensors.

Half of them are what choices are made on, the others are kept apart for the verification.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tt_cnn.evaluation.pictures import picture_files, read_picture
from tt_cnn.evaluation.preparation import prepare
from tt_cnn.models.registry import ModelEntry, Resolution
from tt_cnn.preprocessing.weights.checkpoints import read_tensors

MOST_IMAGES = 16
"""Each is a run of the model for every candidate that changes values; of more, as many are taken evenly."""
SUFFIXES = (".pt", ".pth", ".npy", ".safetensors")


@dataclass(frozen=True)
class Calibration:
    """Images (1, 3, height, width) as the reference takes them."""

    images: tuple[torch.Tensor, ...]
    source: str

    @property
    def chosen(self) -> Sequence[torch.Tensor]:
        """Those that choices are made on."""
        return self.images[::2]

    @property
    def unseen(self) -> Sequence[torch.Tensor]:
        """Those that they are verified on."""
        return self.images[1::2]

    def __str__(self) -> str:
        return f"{len(self.images)} images of {self.source}: {len(self.chosen)} to choose by, the others to verify"


def batches(images: Sequence[torch.Tensor], size: int) -> list[torch.Tensor]:
    """Batches of a run's size; the last one is filled up from the first image on."""
    count = -(-len(images) // size)
    return [torch.cat([images[i % len(images)] for i in range(n * size, (n + 1) * size)]) for n in range(count)]


def read_calibration(path: Path, entry: ModelEntry, resolution: Resolution) -> Calibration:
    """Images are prepared as for an evaluation; tensors are taken as they are: NCHW, normalised as the reference's.

    Nothing in a file is run.
    """
    if not path.exists():
        raise FileNotFoundError(f"--calibration is {path}; there is no such file or folder")
    if path.is_dir() or path.suffix.lower() not in SUFFIXES:
        files = _evenly(picture_files(path))
        images = [prepare(entry, read_picture(file), resolution)[0] for file in files]
    else:
        images = _evenly([image for tensor in _tensors(path) for image in _images(tensor, path, resolution)])
    if len(images) < 2:
        raise ValueError(
            f"--calibration is {path}, which holds {len(images)} image; there must be at least 2, one to choose by and "
            "one to verify"
        )
    return Calibration(tuple(images), str(path))


def _evenly(items: Sequence[Any]) -> list[Any]:
    """At most `MOST_IMAGES` of them, from the first to the last."""
    if len(items) <= MOST_IMAGES:
        return list(items)
    return [items[i * (len(items) - 1) // (MOST_IMAGES - 1)] for i in range(MOST_IMAGES)]


def _tensors(path: Path) -> Iterable[torch.Tensor]:
    if path.suffix.lower() == ".npy":
        try:
            return [torch.from_numpy(np.load(path, allow_pickle=False))]
        except (ValueError, EOFError, TypeError, OSError) as error:
            raise ValueError(f"{path} is damaged or no array of numbers: {str(error).splitlines()[0]}") from error
    content = read_tensors(path)
    values = list(content.values()) if isinstance(content, Mapping) else content
    values = list(values) if isinstance(values, (list, tuple)) else [values]
    strange = [value for value in values if not isinstance(value, torch.Tensor)]
    if strange:
        raise ValueError(f"{path} holds a {type(strange[0]).__name__}; it must hold tensors alone")
    return values


def _images(tensor: torch.Tensor, path: Path, resolution: Resolution) -> Iterable[torch.Tensor]:
    wanted = (3, *resolution)
    if tuple(tensor.shape[1:]) != wanted:
        shape = "x".join(map(str, tensor.shape)) or "one number"
        raise ValueError(f"{path} holds a tensor of {shape}; it must be Nx{'x'.join(map(str, wanted))} (NCHW)")
    if not tensor.is_floating_point():
        raise ValueError(
            f"{path} holds values of {tensor.dtype}; they must be floats, normalised as the reference takes them. A "
            "folder of images is normalised for you"
        )
    if not bool(tensor.isfinite().all()):
        raise ValueError(f"{path} holds a NaN or an infinity")
    return tensor.float().split(1)
