# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, as all reports write them."""

from __future__ import annotations

import pytest

from tt_cnn.reports.words import amount, counted


@pytest.mark.parametrize(("number", "said"), [(0, "0 steps"), (1, "1 step"), (2, "2 steps"), (1234, "1 234 steps")])
def test_one_is_singular(number: int, said: str) -> None:
    assert counted(number, "step") == said


def test_a_plural_of_its_own() -> None:
    assert (counted(1, "batch", "batches"), counted(3, "batch", "batches")) == ("1 batch", "3 batches")


@pytest.mark.parametrize(
    ("number", "said"), [(58450, "58,450"), (44566752, "44.57 M"), (56583782400, "56.58 G"), (0, "0")]
)
def test_amounts_keep_their_digits(number: int, said: str) -> None:
    """0.04 G and 44.57 M were the same number in two documents of one model."""
    assert amount(number) == said
