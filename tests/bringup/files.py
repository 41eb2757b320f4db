# SPDX-License-Identifier: Apache-2.0
"""Model files of small networks, and what their import is compared by."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tt_cnn.bringup.codegen.model_file import model_file
from tt_cnn.bringup.imported.modules import make_module
from tt_cnn.bringup.imported.source import read_graph
from tt_cnn.bringup.lowering import lower
from tt_cnn.bringup.torch_graph import export_graph


def save_pt2(model: nn.Module, inputs: Sequence[torch.Tensor], file: Path, **options: Any) -> Path:
    torch.export.save(torch.export.export(model.eval(), tuple(inputs), **options), file)
    return file


def save_onnx(model: nn.Module, inputs: Sequence[torch.Tensor], file: Path, **options: Any) -> Path:
    """By torch's older exporter, which needs no further package; batch norms stay where they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kept = torch.onnx.TrainingMode.PRESERVE
        options = {"opset_version": 17, "training": kept, **options}
        torch.onnx.export(model.eval(), tuple(inputs), file, dynamo=False, **options)
    return file


def imported(file: Path, *shapes: tuple[int, ...]) -> nn.Module:
    return make_module(read_graph(file, shapes))


def outputs_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        found = model(*inputs)
    if isinstance(found, dict):
        return list(found.values())
    return list(found) if isinstance(found, (tuple, list)) else [found]


def code_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> str:
    return model_file(lower(export_graph(model, inputs)), "A test.").code


def layers_of(model: nn.Module, inputs: Sequence[torch.Tensor]) -> Counter[str]:
    """How many layers of each kind the model becomes."""
    return Counter(layer.method for layer in lower(export_graph(model, inputs)).layers())
