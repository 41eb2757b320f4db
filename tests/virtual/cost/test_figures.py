# SPDX-License-Identifier: Apache-2.0
"""The data files are whole, and every figure says where it comes from."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tt_cnn.virtual.arch import CARDS, card_by_name
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
    """Few on the times of models; those on published times of single calls stand for one loop of a kernel each."""
    sources = [entry["source"] for entry in sourced_figures("n150").values()]
    assert sum(source.startswith("calibrated on the models") for source in sources) <= 12
    assert sum(source.startswith("calibrated") for source in sources) <= 40


def test_rates_of_all_dram_follow_the_banks() -> None:
    p150, p100 = figures_of(CARDS["p150"]), figures_of(CARDS["p100"])
    assert p100.dram_total_bytes_per_cycle == p150.dram_total_bytes_per_cycle * 7 / 8
    assert p100.dram_bytes_per_cycle == p150.dram_bytes_per_cycle
    assert figures_of(card_by_name("p150-13x10")) is p150


def test_tilizing_by_format() -> None:
    figures = figures_of(CARDS["n150"])
    assert figures.tilize(DataType.BFLOAT16, DataType.BFLOAT8_B, False) == 40
    assert figures.tilize(DataType.BFLOAT16, DataType.BFLOAT16, True) == 68
    assert figures.tilize(DataType.FLOAT32, DataType.FLOAT32, False) == 107
    assert figures.tilize(DataType.BFLOAT8_B, DataType.BFLOAT16, False) == 61
