# SPDX-License-Identifier: Apache-2.0
"""`tt-cnn run`: code that says `import ttnn`, from a folder of its own, on the virtual card."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def tt_cnn(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tt_cnn.cli", "run", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


DEMO = """
import sys
import ttnn
from models.common.utility_functions import divup
from models.tt_cnn.tt.pipeline import PipelineConfig
from models.mine.layers import double

device = ttnn.open_device(device_id=0)
print(sys.argv[1:], device.arch().name, double(divup(7, 2)))
ttnn.close_device(device)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Somebody's folder: its own `models`, and a script that also imports what it does not have."""
    mine = tmp_path / "models" / "mine"
    mine.mkdir(parents=True)
    (mine / "layers.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "demo.py").write_text(DEMO)
    return tmp_path


def test_a_script_runs_as_it_is(folder: Path) -> None:
    done = tt_cnn("--card", "p150", "demo.py", "--batch", "8", folder=folder)
    assert (done.returncode, done.stdout.strip()) == (0, "['--batch', '8'] BLACKHOLE 8"), done.stderr


def test_helpers_of_the_folder_come_before_ours(folder: Path) -> None:
    helpers = folder / "models" / "common"
    helpers.mkdir()
    (helpers / "utility_functions.py").write_text("def divup(a, b):\n    return 100\n")
    assert tt_cnn("demo.py", folder=folder).stdout.strip() == "[] WORMHOLE_B0 200"
    assert tt_cnn("--helpers", "all", "demo.py", folder=folder).stdout.strip() == "[] WORMHOLE_B0 8"
    none = tt_cnn("--helpers", "none", "demo.py", folder=folder)
    assert none.returncode == 1 and "No module named 'models.tt_cnn'" in none.stderr


def test_tests_get_the_fixtures(folder: Path) -> None:
    (folder / "test_it.py").write_text("def test_it(device, reset_seeds):\n    assert device.get_num_devices() == 1\n")
    done = tt_cnn("-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py", folder=folder)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr


def test_errors_of_the_script_are_shown_as_python_shows_them(folder: Path) -> None:
    (folder / "bad.py").write_text("import ttnn\n\nraise ValueError('mine')\n")
    done = tt_cnn("bad.py", folder=folder)
    assert done.returncode == 1 and "Traceback" in done.stderr and "ValueError: mine" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gone.py",), "gone.py: no such file"),
        (("-m",), "-m needs the name of a module"),
        (("--helpers", "some", "demo.py"), "--helpers is some; it is one of missing, all, none"),
        (("--root", "gone", "demo.py"), ": no such folder"),
    ],
)
def test_mistakes_are_said_in_a_sentence(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    done = tt_cnn(*arguments, folder=folder)
    assert done.returncode == 2 and message in done.stderr.replace("\n", " ")


def test_what_is_missing_without_loguru_is_said(folder: Path) -> None:
    (folder / "log.py").write_text(
        "import sys\nsys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        "sys.modules.pop('loguru', None)\nimport loguru\n"
    )
    done = tt_cnn("log.py", folder=folder)
    assert "pip install 'tt-cnn[compat]'" in done.stderr
