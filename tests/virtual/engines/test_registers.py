# SPDX-License-Identifier: Apache-2.0
"""Compiled primitives outside of traces: bit for bit what the torch functions that define them give."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.engines.replay.kernels.instructions import ROUNDINGS
from tt_cnn.virtual.engines.replay.kernels.registers import COMPILED
from tt_cnn.virtual.numerics.fidelity import to_source
from tt_cnn.virtual.numerics.formats import host_round
from tt_cnn.virtual.numerics.primitive import PRIMITIVES
from tt_cnn.virtual.types.enums import DataType, MathFidelity

FIDELITIES = (MathFidelity.LoFi, MathFidelity.HiFi2, MathFidelity.HiFi3, MathFidelity.HiFi4)


def operand(rows: int, columns: int, dtype: DataType, scales: str) -> torch.Tensor:
    x = torch.randn(rows, columns)
    if scales == "wide":
        x = x * 2.0 ** torch.randint(-30, 30, (rows, columns))
    elif scales == "small":
        x = x * 2.0 ** torch.randint(-110, -50, (rows, columns))
    elif scales == "sparse":
        x = x * (torch.rand(rows, columns) < 0.2)
    elif scales == "whole":
        x = x.mul(4).round()
    return to_source(host_round(x, dtype), dtype)


@pytest.mark.parametrize("fp32", [False, True])
@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("scales", ["normal", "wide", "small", "sparse", "whole"])
def test_a_product_follows_the_register_bit_for_bit(fidelity: MathFidelity, fp32: bool, scales: str) -> None:
    torch.manual_seed(0)
    for dtype, (rows, inner, columns) in (
        (DataType.BFLOAT16, (45, 96, 40)),
        (DataType.BFLOAT8_B, (33, 160, 64)),
        (DataType.FLOAT32, (70, 50, 33)),
    ):
        padded = inner + (-inner % 32)
        x, w = (
            operand(rows, padded, dtype, scales)[:, :inner],
            operand(inner, columns + (-columns % 32), dtype, scales)[:, :columns],
        )
        for start in ((), (host_round(torch.randn(rows, columns), DataType.BFLOAT16),)):
            found = COMPILED["followed_product"](x, w, *start, fidelity=fidelity, fp32_dest=fp32)
            expected = PRIMITIVES["followed_product"].function(x, w, *start, fidelity=fidelity, fp32_dest=fp32)
            assert torch.equal(found.view(torch.int32), expected.view(torch.int32)), dtype


def test_infinities_go_torchs_way() -> None:
    x, w = torch.randn(64, 64), torch.randn(64, 64)
    x[3, 5] = float("inf")
    found, expected = (
        product(x, w, fidelity=MathFidelity.LoFi, fp32_dest=False)
        for product in (COMPILED["followed_product"], PRIMITIVES["followed_product"].function)
    )
    assert torch.equal(found.nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize("name", ["to_blocks", *(name for name in COMPILED if name in ROUNDINGS)])
def test_roundings_of_any_bits(name: str) -> None:
    torch.manual_seed(0)
    parameters: list[dict[str, object]] = [{}]
    if name == "cut":
        parameters = [{"bits": bits} for bits in (4, 6, 9, 10)]
    elif name == "to_blocks":
        parameters = [
            {"dtype": DataType.BFLOAT8_B, "precise": False},
            {"dtype": DataType.BFLOAT8_B, "precise": True},
            {"dtype": DataType.BFLOAT4_B, "precise": False},
        ]
    wild = torch.randint(-(2**31), 2**31, (257, 48)).to(torch.int32).view(torch.float32)
    special = torch.tensor(
        [0.0, -0.0, 1e-45, -1e-40, 2.0**-126, 3.4028234e38, float("inf"), -float("inf"), float("nan")]
    )
    mixed = special[torch.randint(0, len(special), (257, 48))]
    for x in (wild, mixed, torch.randn(300, 4, 32), torch.randn(64, 400).t()[:, :48], torch.randn(3, 10000)):
        for given in parameters:
            found, expected = COMPILED[name](x, **given), PRIMITIVES[name].function(x, **given)
            same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
            assert found.shape == expected.shape and bool(same.all())


def test_memory_is_used_again_where_asked_for() -> None:
    x = torch.randn(200, 64)
    expected = PRIMITIVES["to_bfloat16"].function(x)
    found = COMPILED["to_bfloat16"](x, inplace=True)
    assert found.data_ptr() == x.data_ptr() and torch.equal(found, expected)
