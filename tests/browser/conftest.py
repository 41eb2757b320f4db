# SPDX-License-Identifier: Apache-2.0
"""A browser for all tests here. Needs playwright and a chromium, which `CHROMIUM` may name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tt_cnn.reports.profile import Profile, profile_model


@pytest.fixture(scope="package")
def unet() -> Profile:
    return profile_model("vanilla_unet")


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    executable = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    assert executable, "install chromium, or name it in CHROMIUM"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield started
        started.close()
