# SPDX-License-Identifier: Apache-2.0
"""Replaying networks with numbers: each step on its recorded inputs, the last output of the whole run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from tt_cnn.conformance.corpus import read_corpus
from tt_cnn.conformance.replay import replay
from tt_cnn.conformance.tally import Tally
from tt_cnn.conformance.values import computing_card, read_back
from tt_cnn.virtual import ttnn

STEPS = [
    {"op": "mish", "in": [0], "out": 1, "args": {}, "free": []},
    {"op": "add", "in": [1, 0], "out": 2, "args": {}, "free": [0, 1]},
]


def bits(values: torch.Tensor) -> np.ndarray:
    """bfloat16 bit patterns, as networks are recorded."""
    return (values.numpy().view(np.uint32) >> 16).astype(np.uint16)


def write(folder: Path, shift: float = 0.0) -> Path:
    """A network without convolutions as the virtual card computes it exactly; `shift` falsifies its first output."""
    values = torch.randn(1, 1, 32, 32, generator=torch.Generator().manual_seed(3)).bfloat16().float()
    with computing_card("n150", "exact") as card:
        x = ttnn.from_torch(values, ttnn.bfloat16, device=card)
        first = (read_back(ttnn.mish(x)) + shift).bfloat16().float()
        second = read_back(ttnn.add(ttnn.from_torch(first, ttnn.bfloat16, device=card), x))
    case = {"id": "n0", "input": [1, 4, 8, 32], "steps": STEPS}
    (folder / "cases.jsonl").write_text(json.dumps({"card": "n150", "case": case, "result": {"status": "ok"}}))
    arrays = {"n0.input": bits(values.reshape(1, 4, 8, 32)), "n0.out0": bits(first), "n0.out1": bits(second)}
    np.savez(folder / "values.npz", **arrays)
    return folder


def replayed(folder: Path) -> Tally:
    tally = Tally()
    list(replay(read_corpus(folder), tally))
    return tally


def test_steps_count_one_by_one_and_the_whole_by_its_last_output(tmp_path: Path) -> None:
    tally = replayed(write(tmp_path))
    assert not tally.differences
    assert (tally.counts["values"].agree, tally.counts["error"].agree) == (2, 1)
    assert set(tally.by_op) == {"mish", "add", "network"}


def test_every_step_starts_from_recorded_numbers(tmp_path: Path) -> None:
    """A first step that was recorded wrong differs; the second is right on what was recorded, the whole is not."""
    tally = replayed(write(tmp_path, shift=1.0))
    assert [difference.op for difference in tally.differences["values"]] == ["mish"]
    assert tally.by_op["add"]["values"].agree == 1
    assert [difference.op for difference in tally.differences["error"]] == ["network"]
