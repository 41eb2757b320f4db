# SPDX-License-Identifier: Apache-2.0
"""What a user installs: every requirement has a lower bound, and all of them are tried by `nox -s lowest`."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def noxfile() -> ModuleType:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(heading: str) -> list[str]:
    found = re.search(rf"^{heading} = \[(.*?)\]", PROJECT, re.MULTILINE | re.DOTALL)
    assert found is not None, heading
    return re.findall(r'"([^"]+)"', found[1])


def test_every_lower_bound_is_tried(noxfile: ModuleType) -> None:
    wanted = [one for heading in ("dependencies", *noxfile.EXTRAS) for one in listed(heading)]
    assert len(wanted) > 10 and all(">=" in one for one in wanted)
    assert noxfile.lower_bounds(PROJECT) == [one.replace(">=", "==") for one in wanted]


def test_the_pythons_of_nox_are_those_of_the_package(noxfile: ModuleType) -> None:
    classifiers = re.findall(r"Programming Language :: Python :: (3\.\d+)", PROJECT)
    assert classifiers == noxfile.PYTHONS
    assert re.search(r'^requires-python = ">=([\d.]+)"', PROJECT, re.MULTILINE)[1] == classifiers[0]  # type: ignore[index]


def test_what_a_build_needs_is_copied_for_it() -> None:
    script = (ROOT / "scripts" / "check_wheel.sh").read_text(encoding="utf-8")
    copied = re.search(r"cp -r (.*?) \"", script)
    assert copied is not None
    assert all((ROOT / name).exists() for name in copied[1].split())
    assert {"pyproject.toml", "README.md", "src"} <= set(copied[1].split())
