# SPDX-License-Identifier: Apache-2.0
"""Functions of bfloat16 registers from tables: bit for bit what the vector unit's kernels give."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.engines.replay.kernels.alike import OUTSIDE_TRACES
from tt_cnn.virtual.engines.replay.kernels.tables import is_tabulated
from tt_cnn.virtual.numerics import VectorUnit
from tt_cnn.virtual.numerics.primitive import PRIMITIVES

UNIT = VectorUnit()
CASES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("mish", ()), ("sigmoid", ()), ("silu", ()), ("gelu", ()), ("tanh", ()), ("exp", ()), ("log", ()), ("sqrt", ()),
    ("reciprocal", ()), ("relu", ()), ("hardsigmoid", ()), ("sin", ()), ("erf", ()), ("leaky_relu", (0.1,)),
    ("add_unary", (0.0,)), ("add_unary", (-0.0,)), ("clamp", (-1.0, 2.5)),
)  # fmt: skip


def every_kind_of_number() -> torch.Tensor:
    wild = torch.randint(-(2**31), 2**31, (300, 128)).to(torch.int32).view(torch.float32)
    special = torch.tensor([0.0, -0.0, 1e-45, -1e-40, 2.0**-126, 3.4e38, float("inf"), -float("inf"), float("nan")])
    return torch.cat((wild, special[torch.randint(0, len(special), (100, 128))], torch.randn(400, 128) * 4))


@pytest.mark.parametrize(("name", "params"), CASES)
def test_a_table_has_the_kernels_bits(name: str, params: tuple[float, ...]) -> None:
    torch.manual_seed(0)
    x = every_kind_of_number()
    for unit in (UNIT, VectorUnit(approx=True), VectorUnit(fp32_input=True)):
        assert is_tabulated(x, name, unit)
        found = OUTSIDE_TRACES["unary"](x, name=name, params=params, unit=unit)
        expected = PRIMITIVES["unary"].function(x, name=name, params=params, unit=unit)
        same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
        assert bool(same.all()), (x[~same][:5], found[~same][:5], expected[~same][:5])


@pytest.mark.parametrize("unit", [VectorUnit(fp32_dest=True), VectorUnit(exact=False)])
def test_registers_of_more_bits_and_stand_ins_have_none(unit: VectorUnit) -> None:
    assert not is_tabulated(every_kind_of_number(), "mish", unit)
    assert not is_tabulated(torch.randn(32, 32), "mish", UNIT)
