# SPDX-License-Identifier: Apache-2.0
"""docs/pipeline.md: its snippets run, and it knows every executor, every figure and every setting."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.pipeline.programs import DEVICE, EXECUTORS, TALL, host, l1, random_inputs, relu, same, to_torch
from tt_cnn import ttnn
from tt_cnn.pipeline import PipelineConfig, PipelineStats, create_pipeline_from_config

GUIDE = Path(__file__).parents[2] / "docs" / "pipeline.md"


def test_the_snippets_run(open_card: Callable[..., Any], capsys: pytest.CaptureFixture[str]) -> None:
    whole, with_failures, on_a_mesh = re.findall(r"^```python\n(.*?)^```", GUIDE.read_text(), re.MULTILINE | re.DOTALL)
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
    exec(compile(whole, str(GUIDE), "exec"), names)
    assert same(to_torch(names["outputs"]), [x.relu() for x in values])
    assert same(to_torch(names["output"]), values[-1].relu())
    assert capsys.readouterr().out.startswith("8 inputs in ")

    config = PipelineConfig(use_trace=True, num_command_queues=2)
    dram = names["dram"]
    with create_pipeline_from_config(
        config, relu, names["device"], dram_input_memory_config=dram, l1_input_memory_config=l1(TALL)
    ) as pipeline:
        pipeline.compile(given[0])
        names |= {"pipeline": pipeline, "paths": range(len(given))}
        exec(compile(with_failures, str(GUIDE), "exec"), names)
    assert same([names["result"]], [values[-1].relu()])
    assert capsys.readouterr().out == ""

    ttnn.close_device(names["device"])
    names["batches"] = [torch.cat(values), -torch.cat(values)]
    exec(compile(on_a_mesh, str(GUIDE), "exec"), names)
    assert same(names["results"], [batch.relu() for batch in names["batches"]])


def test_nothing_is_left_out() -> None:
    text = GUIDE.read_text()
    wanted = [e.__name__ for e in EXECUTORS]
    wanted += [f.name for kind in (PipelineConfig, PipelineStats) for f in dataclasses.fields(kind)]
    assert [name for name in wanted if f"`{name}`" not in text] == []
