# SPDX-License-Identifier: Apache-2.0
"""Bringing small modules up in memory: exported, lowered, written as code, run on a virtual card beside torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import sqrt
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.bringup.codegen.config_file import settings_of
from tt_cnn.bringup.codegen.model_file import model_class, model_file
from tt_cnn.bringup.lowering import lower
from tt_cnn.bringup.lowering.program import Program
from tt_cnn.bringup.torch_graph import export_graph
from tt_cnn.testing.pcc import agreement

_PRECISE = {"math_fidelity": ttnn.MathFidelity.HiFi4, "fp32_dest_acc_en": True}
_PRODUCTS = frozenset({"conv2d", "conv_transpose2d", "linear"})


class Written(nn.Module):
    """A module whose forward is a function of it and its input, with layers by name."""

    def __init__(self, forward: Callable[..., Any], **layers: nn.Module) -> None:
        super().__init__()
        self.written = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: torch.Tensor) -> Any:
        return self.written(self, x)


def _nothing(program: Program) -> None:
    pass


def bring_up(
    model: nn.Module,
    shape: tuple[int, ...],
    change: Callable[[Program], None] = _nothing,
    settings: Mapping[str, Mapping[str, Any]] | None = None,
) -> tuple[Program, type]:
    """The lowered program and the class of the generated code; `change` works on the program before it is written,
    `settings` are those of all layers of a method."""
    program = lower(export_graph(model.eval(), [torch.zeros(shape)]))
    change(program)
    made = model_file(program, "A test.")
    table = settings_of(program, made.optional)
    for layer in program.layers():
        if layer.method in _PRODUCTS:
            table.setdefault(layer.name, {}).update(_PRECISE)
        table.setdefault(layer.name, {}).update((settings or {}).get(layer.method, {}))
    names: dict[str, Any] = {"LAYERS": table, "__name__": "generated"}
    exec(compile(made.code.replace("from .config import LAYERS\n", ""), "generated", "exec"), names)
    return program, names[model_class(program)]


def outputs_of(
    model: nn.Module, x: torch.Tensor, device: Any, **options: Any
) -> tuple[Program, list[torch.Tensor], list[torch.Tensor]]:
    """The program, what the card gives, and what torch gives; `options` are those of `bring_up`."""
    program, kind = bring_up(model, tuple(x.shape), **options)
    made = kind(model, device, batch_size=x.shape[0])
    placed = made.place(x)
    found = made.to_torch(made(placed))
    assert placed.is_allocated(), "the model gave its input back"
    with torch.no_grad():
        given = model(x)
    expected = list(given.values()) if isinstance(given, dict) else [given] if torch.is_tensor(given) else list(given)
    return program, list(found), expected


def assert_comes_up(
    model: nn.Module, x: torch.Tensor, device: Any, *, least: float = 0.999, fallbacks: int = 0, **options: Any
) -> Program:
    """Every output beside torch: shape, correlation, and size of the error."""
    program, found, expected = outputs_of(model, x, device, **options)
    assert len(found) == len(expected)
    for mine, theirs in zip(found, expected, strict=True):
        assert tuple(mine.shape) == tuple(theirs.shape)
        assert agreement(theirs, mine) >= least, agreement(theirs, mine)
        theirs = theirs.float()
        error = (mine - theirs).norm() / (theirs.norm() + 1e-6)  # a factor or a shift does not show in the PCC
        assert error < 2 * sqrt(2 * (1 - least)), error
    notes = [note.text for note in program.notes if note.kind == "fallback"]
    assert len(notes) == fallbacks, notes
    return program
