# SPDX-License-Identifier: Apache-2.0
"""One module of the model on the card, given the reference's values."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch

from tt_cnn import ttnn
from tt_cnn.models import create_tt
from tt_cnn.models.resnet50.reference.model import ResNet50
from tt_cnn.models.resnet50.tt.sharding import height_sharded
from tt_cnn.testing.pcc import comp_pcc

CHAIN = ("images", "stem", "layer1", "layer2", "layer3", "layer4", "head")
"""Each takes the values of the one before."""

VARIANTS = [
    ("n150", 1, "tuned"),
    *(
        pytest.param(card, batch_size, precision, marks=pytest.mark.long)
        for card in ("n150", "p150")
        for batch_size in (1, 8, 16)
        for precision in ("tuned", "bfloat16")
        if (card, batch_size, precision) != ("n150", 1, "tuned")
    ),
]
"""Cards, batch sizes and precisions."""


class Activations(dict[str, torch.Tensor]):
    """Outputs of the reference's modules by name, NCHW."""

    def __init__(self, reference: ResNet50, images: torch.Tensor) -> None:
        super().__init__(images=images)
        with torch.no_grad():
            for before, name in pairwise(CHAIN):
                self[name] = getattr(reference, name)(self[before])


def pcc_of_module(
    name: str, reference: ResNet50, activations: Activations, device: Any, batch_size: int, precision: Any
) -> float:
    model = create_tt("resnet50", device, reference, batch_size=batch_size, precision=precision)
    given = activations[CHAIN[CHAIN.index(name) - 1]]
    dtype = ttnn.bfloat8_b if precision == "tuned" else ttnn.bfloat16
    x = model.place(given) if name == "stem" else _in_shards(given, dtype, device)
    output = getattr(model, name)(x)
    expected = activations[name]
    found = ttnn.to_torch(output).float()
    if expected.ndim == 4:
        batch, channels, height, width = expected.shape
        found = found.reshape(batch, height, width, channels).permute(0, 3, 1, 2)
    return float(comp_pcc(expected, found.reshape(expected.shape))[1])


def _in_shards(values: torch.Tensor, dtype: Any, device: Any) -> Any:
    """Over the whole grid, as the stem leaves its output; stages and head move it to where they want it."""
    rows = values.permute(0, 2, 3, 1).reshape(1, 1, -1, values.shape[1]).contiguous()
    grid = device.compute_with_storage_grid_size()
    config = height_sharded(rows.shape[2], rows.shape[3], grid.x * grid.y, device)
    return ttnn.from_torch(rows, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device, memory_config=config)
