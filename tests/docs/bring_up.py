# SPDX-License-Identifier: Apache-2.0
"""The tutorial's model as files, for the tests that need a small model."""

from __future__ import annotations

import atexit
import re
import shutil
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import torch

from tt_cnn.models import register

DOCUMENT = Path(__file__).parents[2] / "docs" / "bring-up.md"
FILE = re.compile(r"# (stripes/\S+\.py)\n")


def snippets() -> list[str]:
    """The Python of the page, in order."""
    return re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def write_files(folder: Path) -> list[str]:
    """The files that the page names, with an empty `__init__.py` in each folder; what is left is run in order."""
    runs = []
    for code in snippets():
        named = FILE.match(code)
        if named is None:
            runs.append(code)
            continue
        path = folder / named[1]
        path.parent.mkdir(parents=True, exist_ok=True)
        for parent in (path.parent, folder / "stripes"):
            (parent / "__init__.py").touch()
        path.write_text(code, encoding="utf-8")
    return runs


@dataclass(frozen=True)
class Tutorial:
    """The page, gone through up to the trained weights."""

    folder: Path
    """It holds the package `stripes`, importable from now on."""
    names: dict[str, Any]
    """What the code so far has made."""
    rest: list[str]
    """The code to come."""


def trained_stripes() -> Tutorial:
    """The tutorial, its model registered until the end of the test."""
    tutorial = _trained_once()
    register(sys.modules["stripes"].ENTRY, replace=True)
    return tutorial


@cache
def _trained_once() -> Tutorial:
    folder = Path(mkdtemp(prefix="stripes"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    runs = write_files(folder)
    sys.path.insert(0, str(folder))
    names: dict[str, Any] = {}
    upto = next(index for index, code in enumerate(runs) if "save_file(" in code) + 1
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a network is not worth more
    for code in runs[:upto]:
        exec(compile(code, str(DOCUMENT), "exec"), names)
    torch.set_num_threads(threads)
    return Tutorial(folder, names, runs[upto:])
