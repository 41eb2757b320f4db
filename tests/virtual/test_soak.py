"""A short soak; `benchmarks/soak.py` is the long one."""

from __future__ import annotations

import importlib.util
from pathlib import Path

_spec = importlib.util.spec_from_file_location("soak", Path(__file__).parents[2] / "benchmarks" / "soak.py")
assert _spec is not None and _spec.loader is not None
soak = importlib.util.module_from_spec(_spec)
import sys  # noqa: E402

sys.modules["soak"] = soak
_spec.loader.exec_module(soak)


def test_nothing_grows():
    lines: list[str] = []
    growing = soak.run(2000, 6000, lines.append)
    assert not growing, "\n".join(lines)
