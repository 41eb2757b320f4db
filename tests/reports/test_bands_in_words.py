# SPDX-License-Identifier: Apache-2.0
"""How the band of a rate is written behind it."""

import pytest

from tt_cnn.reports.records import between
from tt_cnn.virtual.cost.bands import Band


@pytest.mark.parametrize(
    ("band", "written"),
    [(Band(189.6, 225.2), ", 190 to 225"), (Band(0.0, 0.0), ""), (Band(8262.8, 8263.4), "")],
)
def test_a_band_is_written_only_where_there_is_one_to_be_seen(band: Band, written: str) -> None:
    assert between(band) == written
