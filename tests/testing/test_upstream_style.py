# SPDX-License-Identifier: Apache-2.0
"""TT-CNN's own way of testing, run by `--compat all`: its imports, its fixtures, every name its tests use.

The tests below are ours. They stand in one file that a separate pytest runs, because `import ttnn` must be redirected
before it is collected.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FILES = sorted((Path(__file__).parent / "upstream").glob("case_*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_tests_in_tt_cnns_style_run_as_they_are(file: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tt_cnn.testing.plugin", "-p", "no:cacheprovider"]
    options = ["--compat", "all", "--rootdir", str(file.parent), "-c", "/dev/null", "-o", "python_files=case_*.py"]
    done = subprocess.run([*command, *options, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert " passed" in done.stdout and "failed" not in done.stdout and "skipped" not in done.stdout
