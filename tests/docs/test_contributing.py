# SPDX-License-Identifier: Apache-2.0
"""CONTRIBUTING.md: its op is registered, its tests pass on it, and it is taken away again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.tensors.tensor import OPERATORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```python\n# (\S+\.py)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
OP, TESTS = "src/tt_cnn/virtual/ops/eltwise/snake_beta.py", "tests/virtual/ops/test_snake_beta.py"


def executed(file: str) -> ModuleType:
    name = file.removeprefix("src/").removesuffix(".py").replace("/", ".")
    module = sys.modules[name] = ModuleType(name)
    exec(compile(FILES[file], str(ROOT / file), "exec", dont_inherit=True), module.__dict__)
    return module


@pytest.fixture
def snake_beta() -> Iterator[ModuleType]:
    module = executed(OP)
    yield module
    del OPERATIONS["snake_beta"], OPERATORS["snake_beta"], sys.modules[module.__name__]


def test_the_card_does_not_have_the_op_that_the_page_adds() -> None:
    assert list(FILES) == [OP, TESTS]
    assert not (ROOT / OP).exists() and not hasattr(ttnn, "snake_beta")


def cases() -> list[Any]:
    """The page's test functions with their parameters."""
    found = []
    for name, test in vars(executed(TESTS)).items():
        if name.startswith("test_"):
            marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            for values in product(*(given for _, given in marks)):
                arguments = dict(zip((argument for argument, _ in marks), values, strict=True))
                found.append(pytest.param(test, arguments, id=name.removeprefix("test_") + str(list(values) or "")))
    return found


@pytest.mark.parametrize(("test", "arguments"), cases())
def test_its_tests_pass(
    test: Callable[..., None], arguments: dict[str, Any], snake_beta: ModuleType, card: MeshDevice
) -> None:
    test(card=card, **arguments)


def test_it_is_gone_after_its_tests() -> None:
    assert "snake_beta" not in OPERATIONS and not hasattr(ttnn, "snake_beta")


def test_its_files_are_written_as_ours_are(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / Path(name).name).write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    for command in (["check", "--select", "E,F,I,B,UP"], ["format", "--check"]):
        result = subprocess.run(
            [*ruff, *command, "--line-length", "120", "--isolated", str(tmp_path)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, result.stdout + result.stderr
