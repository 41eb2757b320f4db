# SPDX-License-Identifier: Apache-2.0
"""Profiles that many tests read: they are made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tt_cnn.reports.profile import Profile, profile_model
from tt_cnn.reports.profile_folder import write_folder
from tt_cnn.reports.recording import PlanningCard


@cache
def made(name: str, **options: Any) -> Profile:
    return profile_model(name, **options)


@pytest.fixture(scope="session")
def profile_of() -> Callable[..., Profile]:
    """The profile of a model, made once for the same options."""
    return made


@pytest.fixture(scope="session")
def unet() -> Profile:
    return made("vanilla_unet")


@pytest.fixture(scope="session")
def folder(unet: Profile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All reports of UNet on an n150."""
    where = tmp_path_factory.mktemp("profile")
    write_folder(unet, where)
    return where


@pytest.fixture
def card() -> Iterator[PlanningCard]:
    device = PlanningCard("n150", 32768)
    yield device
    device.close()
