# SPDX-License-Identifier: Apache-2.0
"""Fake steps, and a cache that no test shares with the user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.optimizer.fake_steps import registered
from tests.optimizer.small_model import ENTRY
from tt_cnn.models import ModelEntry, registry


@pytest.fixture
def fake_steps() -> Iterator[None]:
    with registered():
        yield


@pytest.fixture
def small_model() -> Iterator[ModelEntry]:
    with registry.registered(ENTRY) as entry:
        yield entry


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("TT_CNN_CACHE", str(folder))
    return folder
