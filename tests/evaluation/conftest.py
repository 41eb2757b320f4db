# SPDX-License-Identifier: Apache-2.0
"""Small models of each task for the tests, from the tutorial and from stand_ins.py."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.docs.bring_up import trained_stripes
from tests.evaluation.stand_ins import DETECTOR, SEGMENTER
from tt_cnn.models import ModelEntry, registry


@pytest.fixture
def stripes() -> ModelEntry:
    trained_stripes()
    import stripes as package

    return package.ENTRY


@pytest.fixture(params=["segmenter", "detector"])
def stand_in(request: pytest.FixtureRequest) -> Iterator[ModelEntry]:
    """Registered for one test."""
    entry = {"segmenter": SEGMENTER, "detector": DETECTOR}[request.param]
    registry.register(entry)
    yield entry
    del registry._ENTRIES[entry.name]
