# SPDX-License-Identifier: Apache-2.0
"""The matrix unit's adder, and matrix products against values recorded from the real kernels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tt_cnn.virtual.numerics import host_round, matrix_unit, pack
from tt_cnn.virtual.types.enums import DataType, MathFidelity

DATA = Path(__file__).parents[2] / "golden" / "data"
VALUES = np.load(DATA / "values_matmul.npz")
CASES = [json.loads(line)["case"] for line in (DATA / "values_matmul.jsonl").read_text().splitlines()]
FIDELITIES = (MathFidelity.LoFi, MathFidelity.HiFi2, MathFidelity.HiFi3, MathFidelity.HiFi4)
BLOCK = 64  # the inner block that TT-NN chooses for all of these


def bfloat16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16).float()


def label(case: dict) -> str:
    arguments = case["args"]
    register = "fp32" if arguments["fp32_dest_acc_en"] else "bf16"
    return f"{case['id']}-k{arguments['k']}-{arguments['math_fidelity']}-{register}"


def product(case: dict, exact: bool) -> torch.Tensor:
    arguments = case["args"]
    dtype_a, dtype_b, out_dtype = (DataType[arguments[key].upper()] for key in ("dtype", "dtype_b", "output_dtype"))
    x = host_round(torch.from_numpy(VALUES[f"{case['id']}.in0"]), dtype_a)[0, 0]
    w = host_round(torch.from_numpy(VALUES[f"{case['id']}.in1"]), dtype_b)[0, 0]
    register = None
    for start in range(0, x.shape[1], BLOCK):
        register = matrix_unit.matmul(
            x[:, start : start + BLOCK],
            w[start : start + BLOCK],
            MathFidelity[arguments["math_fidelity"]],
            fp32_dest=arguments["fp32_dest_acc_en"],
            register=None if register is None else pack(register, out_dtype),
            exact=exact,
        )
    return pack(register, out_dtype)[None, None]


@pytest.mark.parametrize("case", CASES, ids=label)
def test_exact_product_equals_the_recorded_one(case: dict) -> None:
    assert torch.equal(product(case, exact=True), torch.from_numpy(VALUES[f"{case['id']}.out"]))


@pytest.mark.parametrize("case", CASES, ids=label)
def test_quick_product_is_close_to_the_recorded_one(case: dict) -> None:
    ours, real = product(case, exact=False), torch.from_numpy(VALUES[f"{case['id']}.out"])
    assert not torch.equal(ours, real), "quick and exact products are told apart by these cases"
    assert torch.corrcoef(torch.stack((ours.flatten(), real.flatten())))[0, 1] > 0.999


def test_padding_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = bfloat16(48, 40), bfloat16(40, 24)
    whole = matrix_unit.matmul(x, w)
    padded = torch.nn.functional.pad(x, (0, 24)), torch.nn.functional.pad(w, (0, 0, 0, 24))
    assert torch.equal(matrix_unit.matmul(*padded), whole)
    monkeypatch.setattr(matrix_unit, "_CHUNK", 1000)
    assert torch.equal(matrix_unit.matmul(x, w), whole)


def test_zeros_give_zero() -> None:
    assert not matrix_unit.matmul(torch.zeros(8, 32), bfloat16(32, 8)).any()
    assert not matrix_unit.mul(torch.zeros(8), bfloat16(8)).any()


def test_more_fidelity_is_more_accurate() -> None:
    a, b = bfloat16(2, 4096)
    errors = [float((matrix_unit.mul(a, b, level) - a * b).square().mean()) for level in FIDELITIES]
    assert errors[0] > errors[1] > errors[2] >= errors[3] > 0


def test_adder_aligns_before_it_adds() -> None:
    """-1.2890625 + 0.0120849609375 is 163.45 units and would round to 163; aligned it is a tie (recorded: sub)."""
    a, b = torch.tensor([-1.2890625]), torch.tensor([-0.0120849609375])
    assert matrix_unit.sub(a, b).item() == -1.28125
    assert matrix_unit.sub(a, b, exact=False).item() == -1.2734375
    assert matrix_unit.sub(a, b, fp32_dest=True).item() == -1.27734375  # aligned, and not rounded further


def test_infinities_survive() -> None:
    a, b = torch.tensor([float("inf"), 1.0]), torch.tensor([1.0, float("-inf")])
    assert matrix_unit.add(a, b).tolist() == [float("inf"), float("-inf")]
    assert matrix_unit.mul(a, b).tolist() == [float("inf"), float("-inf")]
