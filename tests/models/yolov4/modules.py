# SPDX-License-Identifier: Apache-2.0
"""Modules of YOLOv4 on the card, each given the reference's values of what comes before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.testing import comp_pcc

QUARTER, FULL = 0.25, 1.0
VARIANTS = [
    (QUARTER, "n150", "tuned"),
    (QUARTER, "n150", "bfloat16"),
    pytest.param(QUARTER, "p150", "tuned", marks=pytest.mark.long),
    *(
        pytest.param(FULL, card, precision, marks=pytest.mark.long)
        for card in ("n150", "p150")
        for precision in ("tuned", "bfloat16")
    ),
]
"""Widths, cards and precisions."""

GATES = {"tuned": 0.98, "bfloat16": 0.999}
"""Of a single module; the whole has its own."""

INPUTS: dict[str, tuple[str, ...]] = {
    "down1": ("images",),
    "down2": ("down1",),
    "down3": ("down2",),
    "down4": ("down3",),
    "down5": ("down4",),
    "neck": ("down5", "down4", "down3"),
    "head": ("neck.0", "neck.1", "neck.2"),
}

ModulePcc = Callable[..., list[float]]


def activations_of(reference: YOLOv4, images: torch.Tensor) -> dict[str, torch.Tensor]:
    """Outputs of the reference's modules by name, NCHW; those of a module with several are numbered."""
    found = {"images": images}
    with torch.no_grad():
        for name, inputs in INPUTS.items():
            output = getattr(reference, name)(*(found[each] for each in inputs))
            parts = output if isinstance(output, tuple) else (output,)
            names = [f"{name}.{i}" for i in range(len(parts))] if len(parts) > 1 else [name]
            found.update(zip(names, parts, strict=True))
    return found


def pcc_of_module(name: str, model: Any, activations: dict[str, torch.Tensor], dtype: Any) -> list[float]:
    """For each output of the module."""
    if name == "down1":
        given = [model.picture(model.place(activations["images"]))]
    else:
        given = [on_card(activations[each], dtype, model.device) for each in INPUTS[name]]
    output = getattr(model, name)(*given)
    found = output if isinstance(output, tuple) else (output,)
    expected = [values for each, values in activations.items() if each.split(".")[0] == name]
    return [_pcc(*pair) for pair in zip(expected, found, strict=True)]


def on_card(values: torch.Tensor, dtype: Any, device: Any) -> Any:
    """(1, C, H, W) flattened, in tiles over all banks of L1: modules shard their inputs as they like."""
    rows = flat(values)
    return ttnn.from_torch(
        rows, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
    )


def flat(values: torch.Tensor) -> torch.Tensor:
    """(1, C, H, W) as (1, 1, H * W, C)."""
    return values.permute(0, 2, 3, 1).reshape(1, 1, -1, values.shape[1]).contiguous()


def check(pccs: Sequence[float], precision: str) -> None:
    assert min(pccs) >= GATES[precision], f"PCC {pccs}"


def _pcc(expected: torch.Tensor, found: Any) -> float:
    return float(comp_pcc(flat(expected), ttnn.to_torch(found).float())[1])
