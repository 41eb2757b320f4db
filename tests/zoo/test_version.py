# SPDX-License-Identifier: Apache-2.0
"""The version by which stored rows are kept: only code that has a part in them changes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.zoo.benchmark_files import benchmark_module

FILES = {
    "__init__.py": "",
    "made.py": (
        '"""What makes rows."""\nfrom tt_cnn import used\n\ndef make():\n    from tt_cnn.late import x\n    return x\n'
    ),
    "used.py": "A = 1\n",
    "late.py": "import tt_cnn.pages\nx = 2\n",
    "pages.py": "P = 1\n",
    "other.py": "O = 1\n",
    "builder/__init__.py": "",
    "virtual/__init__.py": "",
    "virtual/ops/found.py": "F = 1\n",
    "virtual/figures.json": "{}",
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        file = tmp_path / "tt_cnn" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def version(source: Path) -> str:
    module = benchmark_module("code_version")
    module.SRC = source
    return str(module.code_version("tt_cnn.made", apart=("tt_cnn.pages",)))


@pytest.mark.parametrize(
    ("file", "text", "same"),
    [
        ("made.py", FILES["made.py"].replace("What makes rows", "Rows") + "\n# a remark\n", True),
        ("made.py", FILES["made.py"].replace("return x", "return (x)"), True),
        ("made.py", FILES["made.py"].replace("return x", "return -x"), False),
        ("used.py", "A = 2\n", False),
        ("late.py", "x = 3\n", False),
        ("pages.py", "P = 2\n", True),
        ("other.py", "O = 2\n", True),
        ("virtual/ops/found.py", "F = 2\n", False),
        ("virtual/figures.json", '{"a": 1}', False),
        ("virtual/ops/more.py", "", False),
    ],
)
def test_what_changes_the_version(file: str, text: str, same: bool, source: Path) -> None:
    before = version(source)
    (source / "tt_cnn" / file).write_text(text)
    assert (version(source) == before) == same


def test_architectures_of_other_families_have_no_part_in_a_row() -> None:
    module = benchmark_module("zoo_rows")
    reached = module.code_version.__globals__["_reached"]((*module.OF_ROWS, "tt_cnn.zoo.squeezenet"), module.APART)
    assert {"tt_cnn.zoo.squeezenet", "tt_cnn.bringup.lowering.joins", "tt_cnn.virtual.ops.matmul"} <= reached
    assert not {"tt_cnn.zoo.resnet", "tt_cnn.cli.zoo", "tt_cnn.bringup.imported.pt2"} & reached
