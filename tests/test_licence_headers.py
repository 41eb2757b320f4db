# SPDX-License-Identifier: Apache-2.0
"""Every source file says its licence; `scripts/add_licence_headers.py` puts the line there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("headers", ROOT / "scripts" / "add_licence_headers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_source_file_lacks_its_licence(script: ModuleType) -> None:
    sources = script.sources()
    assert {path.suffix for path in sources} >= {".py", ".sh", ".js", ".css", ".h"} and len(sources) > 1000
    assert [path for path in sources if not script.has_header(path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("suffix", "text", "expected"),
    [
        (".py", '"""A module."""\n', '# SPDX-License-Identifier: Apache-2.0\n"""A module."""\n'),
        (".sh", "#!/bin/sh\ntrue\n", "#!/bin/sh\n# SPDX-License-Identifier: Apache-2.0\ntrue\n"),
        (".css", "a{}\n", "/* SPDX-License-Identifier: Apache-2.0 */\na{}\n"),
        (".js", "", ""),
    ],
)
def test_the_line_comes_first_and_once(script: ModuleType, suffix: str, text: str, expected: str) -> None:
    assert script.with_header(text, suffix) == expected
    assert script.with_header(expected, suffix) == expected
