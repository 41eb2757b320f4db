# SPDX-License-Identifier: Apache-2.0
"""docs/pipeline.md: its first snippet runs, and it knows every executor, every figure and every setting."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.pipeline.programs import DEVICE, EXECUTORS, TALL, host, l1, random_inputs, relu, same, to_torch
from tt_cnn.pipeline import PipelineConfig, PipelineStats

GUIDE = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_first_snippet_runs(open_card: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    snippet = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)[0]
    values = random_inputs(4, TALL)
    given = [host(x) for x in values]
    names: dict[str, Any] = {
        "device": open_card(**DEVICE),
        "shape": TALL.shape,
        "model": relu,
        "l1": l1(TALL),
        "sample": given[0],
        "inputs": given,
        "camera": iter(given),
    }
    exec(compile(snippet, str(GUIDE), "exec"), names)
    assert same(to_torch(names["outputs"]), [x.relu() for x in values])
    assert same(to_torch(names["output"]), values[-1].relu())
    assert capsys.readouterr().out.startswith("8 inputs in ")


def test_nothing_is_left_out() -> None:
    text = GUIDE.read_text()
    wanted = [e.__name__ for e in EXECUTORS]
    wanted += [f.name for kind in (PipelineConfig, PipelineStats) for f in dataclasses.fields(kind)]
    assert [name for name in wanted if f"`{name}`" not in text] == []
