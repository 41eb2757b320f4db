# SPDX-License-Identifier: Apache-2.0
"""Element-wise ops against values recorded from the real kernels: equal in every element."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tt_cnn.virtual.numerics import binary, host_round, typecast, unary, unary_ops
from tt_cnn.virtual.numerics.vector_unit import Trust, binary_ops
from tt_cnn.virtual.types.enums import DataType

DATA = Path(__file__).parents[2] / "golden" / "data"
VALUES = np.load(DATA / "values_elementwise.npz")
CASES = [json.loads(line)["case"] for line in (DATA / "values_elementwise.jsonl").read_text().splitlines()]


def label(case: dict) -> str:
    arguments = case["args"]
    kind = arguments.get("name") or f"{arguments['from']}-{arguments['to']}"
    return f"{case['id']}-{kind}-{arguments.get('dtype', case['op'])}"


def stored(case: dict, key: str, dtype: DataType) -> torch.Tensor:
    x = torch.from_numpy(VALUES[f"{case['id']}.{key}"])
    width = x.shape[-1]
    return host_round(torch.nn.functional.pad(x, (0, -width % 32)), dtype)[..., :width]


def computed(case: dict, exact: bool) -> torch.Tensor:
    arguments = case["args"]
    if case["op"] == "typecast":
        source, target = (DataType[arguments[key].upper()] for key in ("from", "to"))
        return typecast(stored(case, "in0", source), source, target)
    dtype = DataType[arguments["dtype"].upper()]
    if case["op"] == "unary":
        return unary(arguments["name"], stored(case, "in0", dtype), dtype, *arguments["params"], exact=exact)
    dtype_b = DataType[arguments["dtype_b"].upper()]
    return binary(
        arguments["name"], stored(case, "in0", dtype), stored(case, "in1", dtype_b), dtype, dtype_b, exact=exact
    )


@pytest.mark.parametrize("case", CASES, ids=label)
def test_exact_values_equal_the_recorded_ones(case: dict) -> None:
    real = torch.from_numpy(VALUES[f"{case['id']}.out"])
    assert torch.equal(computed(case, exact=True), real)


@pytest.mark.parametrize("case", CASES, ids=label)
def test_quick_values_are_close_to_the_recorded_ones(case: dict) -> None:
    ours, real = computed(case, exact=False), torch.from_numpy(VALUES[f"{case['id']}.out"])
    finite = ours.isfinite() & real.isfinite()
    assert torch.equal(ours.isfinite(), real.isfinite())
    correlation = torch.corrcoef(torch.stack((ours[finite], real[finite])).double())[0, 1]
    assert correlation > 0.9999


def test_trust_is_claimed_only_where_a_recording_exists() -> None:
    recorded = {case["args"].get("name") for case in CASES}
    aliases = {"swish": "silu", "prelu": "leaky_relu", "multiply": "mul", "divide": "div", "identity": None}
    claimed = {entry.name for entry in (*unary_ops().values(), *binary_ops().values()) if entry.trust is Trust.RECORDED}
    assert {name for name in claimed if aliases.get(name, name)} - set(aliases) <= recorded
