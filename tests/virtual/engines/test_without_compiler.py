# SPDX-License-Identifier: Apache-2.0
"""Without a C++ compiler everything runs, slowly, and says so once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SAID = "no C++ compiler was found"
CALLS = """
import torch
from tt_cnn import ttnn
device = ttnn.open_device(device_id=0, numerics={numerics!r})
x = ttnn.from_torch(torch.ones(32, 32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device)
for _ in range(3):
    x = ttnn.relu(x)
print(ttnn.to_torch(x).sum().item())
"""


@pytest.mark.parametrize(
    ("numerics", "compiler", "times"), [("device", False, 1), ("native", False, 0), ("device", True, 0)]
)
def test_it_is_said_once_where_it_matters(numerics: str, compiler: bool, times: int, tmp_path: Path) -> None:
    """In a process of its own: what it finds on the path is looked up once."""
    empty = tmp_path / "bin"
    empty.mkdir()
    environment = {"TT_CNN_CACHE": str(tmp_path / "cache"), "PYTHONPATH": "src", "PATH": str(empty)}
    if compiler:
        environment["PATH"] = "/usr/bin:/bin"
    done = subprocess.run(
        [sys.executable, "-c", CALLS.format(numerics=numerics)],
        env=environment,
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1024.0\n"
    assert done.stderr.count(SAID) == times, done.stderr
