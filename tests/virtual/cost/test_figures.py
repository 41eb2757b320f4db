"""The data files are whole, and every figure says where it comes from."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tt_cnn.virtual.arch import CARDS
from tt_cnn.virtual.cost.figures import Figures, figures_of, sourced_figures
from tt_cnn.virtual.types.enums import DataType


@pytest.mark.parametrize("card", CARDS)
def test_every_figure_has_a_value_and_a_source(card: str) -> None:
    table = sourced_figures(card)
    assert set(table) == {f.name for f in fields(Figures)}
    for name, entry in table.items():
        assert set(entry) == {"value", "source"}, name
        assert len(entry["source"]) > 7, name
        if isinstance(entry["value"], (int, float)):
            assert entry["value"] > 0, name


def test_calibrated_figures_are_a_handful() -> None:
    calibrated = [n for n, e in sourced_figures("n150").items() if e["source"].startswith("calibrated on")]
    assert len(calibrated) <= 20


def test_tilizing_by_format() -> None:
    figures = figures_of(CARDS["n150"])
    assert figures.tilize(DataType.BFLOAT16, DataType.BFLOAT8_B, False) == 40
    assert figures.tilize(DataType.BFLOAT16, DataType.BFLOAT16, True) == 68
    assert figures.tilize(DataType.FLOAT32, DataType.FLOAT32, False) == 107
    assert figures.tilize(DataType.BFLOAT8_B, DataType.BFLOAT16, False) == 61
