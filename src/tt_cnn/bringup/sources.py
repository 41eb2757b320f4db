# SPDX-License-Identifier: Apache-2.0
"""What MODEL may be: a factory, a model file, or a name of timm's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from tt_cnn.bringup.imported.source import SUFFIXES, ImportedSource, imported_source
from tt_cnn.bringup.source import ModelSource, model_source
from tt_cnn.bringup.timm_source import PREFIX, TimmSource, timm_source

Source: TypeAlias = ModelSource | ImportedSource | TimmSource
CHECKPOINTS = (".pt", ".pth", ".safetensors", ".ckpt")


def source_of(spec: str, shapes: Sequence[tuple[int, ...]]) -> tuple[Source, tuple[tuple[int, ...], ...]]:
    """The source, and the shapes of its inputs: those that the user says, else those that the source knows."""
    suffix = Path(spec).suffix.lower()
    if suffix in CHECKPOINTS:
        raise ValueError(
            f"MODEL is {spec!r}, a checkpoint, which has weights and no model; give what makes the model, and this "
            f"file as its weights: tt-cnn bringup net.py:Net --input 1x3x224x224 --weights {spec}"
        )
    if spec.startswith(PREFIX):
        named = timm_source(spec, shapes)
        return named, named.input_shapes
    if suffix in SUFFIXES:
        file = imported_source(spec, shapes)
        return file, file.input_shapes
    found = model_source(spec)
    if not shapes:
        raise ValueError(f"--input is missing: the shape of what {spec} takes, the batch first, like 1x3x224x224")
    return found, tuple(shapes)
