# SPDX-License-Identifier: Apache-2.0
"""Math fidelity: which bits each phase multiplies."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.virtual.numerics import fidelity
from tt_cnn.virtual.types.enums import DataType, MathFidelity

FIDELITIES = (MathFidelity.LoFi, MathFidelity.HiFi2, MathFidelity.HiFi3, MathFidelity.HiFi4)


def bfloat16(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).to(torch.bfloat16).float()


def test_parts_add_up_and_have_the_multipliers_width() -> None:
    x = bfloat16(4096)
    for split, bits in ((fidelity.split_a, 4), (fidelity.split_b, 6)):
        high, low = split(x)
        assert torch.equal(high + low, x)
        assert not (high.view(torch.int32) & ((1 << (23 - bits)) - 1)).any()
        assert bool((low.abs() < x.abs() * 2.0**-bits).all())


def test_source_a_ignores_the_last_bit_of_tf32() -> None:
    x = torch.tensor([1 + 2.0**-10])
    assert sum(fidelity.split_a(x)).item() == 1.0
    assert sum(fidelity.split_b(x)).item() == x.item()


@pytest.mark.parametrize("level", FIDELITIES, ids=lambda level: level.name)
def test_phases_of_each_fidelity(level: MathFidelity) -> None:
    a, b = bfloat16(2, 512)
    pairs = fidelity.phases(a, b, level)
    assert len(pairs) == {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}[level.name]
    total = sum(x.double() * y.double() for x, y in pairs)
    assert torch.equal(total, a.double() * b.double()) == (level is MathFidelity.HiFi4)
    operands = fidelity.effective_operands(a, b, level)
    if operands is None:
        assert level is MathFidelity.HiFi3
    else:
        assert torch.equal(total, operands[0].double() * operands[1].double())


def test_float32_operands_are_cut_to_tf32() -> None:
    x = torch.tensor([1 + 2.0**-10 + 2.0**-11, 1e-40])
    assert fidelity.to_source(x, DataType.FLOAT32).tolist() == [1 + 2.0**-10, 0.0]
    assert fidelity.to_source(x[:1], DataType.BFLOAT16).item() == x[0].item()
