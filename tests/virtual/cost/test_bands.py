# SPDX-License-Identifier: Apache-2.0
"""Bands around predicted times: from errors on published ones, and of many steps together."""

from __future__ import annotations

import json
from importlib.resources import files

import pytest

from tt_cnn.virtual.arch import CARDS
from tt_cnn.virtual.cost import figures
from tt_cnn.virtual.cost.bands import ALL_OPS, FAMILIES, FILE, band_of, band_of_sum


def test_every_band_is_one_and_covers_what_it_promises() -> None:
    table = json.loads(files(figures).joinpath(FILE).read_text(encoding="utf-8"))
    assert 0.75 <= table["covered"] <= 0.85
    for op, bands in table["bands"].items():
        assert set(bands) == set(FAMILIES.values()), op
        assert all(0 < low <= 1 <= high for low, high in bands.values()), op


def test_ops_without_published_times_have_the_band_of_all() -> None:
    for card in CARDS.values():
        assert band_of("no such op", card) == band_of(ALL_OPS, card)
    assert band_of("Conv2d", CARDS["n300"]) == band_of("Conv2d", CARDS["n150"])
    assert band_of("Conv2d", CARDS["p100"]) == band_of("Conv2d", CARDS["p150"])


def test_steps_of_one_op_are_off_together_and_ops_for_themselves() -> None:
    alike = band_of_sum([("Conv2d", 100.0, 90.0, 110.0), ("Conv2d", 100.0, 90.0, 110.0)])
    assert alike == (180.0, 220.0)
    apart = band_of_sum([("Conv2d", 100.0, 90.0, 110.0), ("Halo", 100.0, 90.0, 110.0)])
    assert apart.low == pytest.approx(200 - 10 * 2**0.5) and apart.high == pytest.approx(200 + 10 * 2**0.5)
    assert band_of_sum([]) == (0.0, 0.0)


def test_the_prediction_lies_in_its_band() -> None:
    """Also where most published times were longer, which shifts the middle of the band."""
    steps = [(op, 100.0, 100.0, 160.0) for op in ("Conv2d", "Halo", "Move", "Reshard")]
    low, high = band_of_sum(steps)
    assert low == 400.0 and high == pytest.approx(520 + 60)
