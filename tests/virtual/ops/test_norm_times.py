# SPDX-License-Identifier: Apache-2.0
"""Predicted times of norms, softmax, reductions and attention beside published ones (profiler dumps of tt-metal)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.virtual.cost.layers import steps_of
from tests.virtual.networks.noting import PlanOnlyCard
from tt_cnn.virtual import ttnn
from tt_cnn.virtual.cost.kernel import kernel_cost

TILE, ROWS = ttnn.TILE_LAYOUT, ttnn.ROW_MAJOR_LAYOUT


def predicted_us(card: str, name: str, shapes: list[tuple[int, ...]], **options: Any) -> float:
    """Of a call's last step; tensors are bfloat16 in DRAM, weights in rows of 32 where they have several."""
    layouts = [TILE] + [ROWS if shape[-1] == 32 else TILE for shape in shapes[1:]]
    device = PlanOnlyCard(card)
    try:
        x, *weights = (
            ttnn.empty(shape, ttnn.bfloat16, layout, device=device)
            for shape, layout in zip(shapes, layouts, strict=True)
        )
        named = dict(zip(("weight", "bias"), weights, strict=False))
        *_, step = steps_of(device, lambda: getattr(ttnn, name)(x, **named, **options))  # after what fills the padding
        return kernel_cost(step, device.card).ns / 1e3
    finally:
        device.close()


@pytest.mark.parametrize(
    ("card", "rows", "width", "weight", "published"),
    [
        ("p150", 128, 128, (1, 1, 1, 128), 3.95),
        ("p150", 2048, 256, None, 9.33),
        ("p150", 512, 256, (1, 1, 8, 32), 6.42),
        ("p150", 128, 2048, (1, 1, 1, 2048), 26.1),
        ("n150", 256, 128, (1, 1, 1, 128), 7.07),
    ],
)
def test_rms_norm(card: str, rows: int, width: int, weight: tuple[int, ...] | None, published: float) -> None:
    """Weights are read once; one core's time hardly changes with the number of others until they crowd the DRAM."""
    shapes = [(1, 1, rows, width), *([weight] if weight else [])]
    assert predicted_us(card, "rms_norm", shapes) == pytest.approx(published, rel=0.25)


def test_layer_norm() -> None:
    shapes = [(1, 1, 1024, 1024), (1, 1, 32, 1024), (1, 1, 32, 1024)]
    assert predicted_us("n150", "layer_norm", shapes) == pytest.approx(49.1, rel=0.25)


@pytest.mark.parametrize(("shape", "published"), [((1, 7, 128, 2048), 72.2), ((1, 7, 2048, 512), 577.5)])
def test_softmax_of_columns(shape: tuple[int, ...], published: float) -> None:
    """A column of 64 tiles does not fit: its exponentials are taken twice."""
    assert predicted_us("n150", "softmax", [shape], dim=2) == pytest.approx(published, rel=0.25)


@pytest.mark.parametrize(("shape", "published"), [((1, 48, 1, 128), 3.81), ((1, 32, 10240, 4), 107.95)])
def test_sums_of_rows(shape: tuple[int, ...], published: float) -> None:
    assert predicted_us("p150", "sum", [shape], dim=-1, keepdim=True) == pytest.approx(published, rel=0.35)
