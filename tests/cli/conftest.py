# SPDX-License-Identifier: Apache-2.0
"""Small models for the commands that run one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.bring_up import trained_stripes
from tests.evaluation.stand_ins import DETECTOR, SEGMENTER
from tt_cnn.models import registry


@pytest.fixture
def stripes() -> str:
    """The tutorial's model, as a user names it."""
    trained_stripes()
    return "stripes:ENTRY"


@pytest.fixture
def stand_ins() -> Iterator[None]:
    """`brightness`, which segments, and `cells`, which detects."""
    for entry in (SEGMENTER, DETECTOR):
        registry.register(entry)
    yield
    for entry in (SEGMENTER, DETECTOR):
        del registry._ENTRIES[entry.name]
