# SPDX-License-Identifier: Apache-2.0
"""Compiled instructions of the card's units: bit for bit what the torch functions that define them give."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tt_cnn.virtual.engines.replay.kernels.registers import COMPILED
from tt_cnn.virtual.numerics.primitive import PRIMITIVES

SHAPES = (
    ((257, 48), (257, 48), (257, 48)),
    ((257, 48), (1, 48), ()),
    ((257, 48), (48,), (257, 1)),
    ((3, 40, 17), (17,), (40, 17)),
    ((), (100, 31), (1,)),
    ((1, 64, 32), (5, 64, 32), (1, 1, 32)),
)


def drawn(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    x = torch.randn(shape)
    if kind == "wide":
        x = x * 2.0 ** torch.randint(-140, 128, shape)
    elif kind == "near":
        x = x * 2.0 ** torch.randint(-3, 3, shape)
    elif kind == "bfloat16":
        x = x.bfloat16().float()
    elif kind == "any":
        x = torch.randint(-(2**31), 2**31, shape).to(torch.int32).view(torch.float32)
    elif kind == "special":
        special = (0.0, -0.0, 1e-45, -1e-40, 2.0**-126, -(2.0**-126), 3.4028234e38, 1.0, -2.0, float("inf"))
        every = torch.tensor([*special, -float("inf"), float("nan")])
        x = every[torch.randint(0, len(every), shape)]
    elif kind == "denormal":
        x = x * 2.0**-130
    return x


def assert_same_bits(name: str, *operands: torch.Tensor, **parameters: Any) -> None:
    found, expected = COMPILED[name](*operands, **parameters), PRIMITIVES[name].function(*operands, **parameters)
    same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
    assert found.shape == expected.shape
    assert bool(same.all()), [x.expand(same.shape)[~same][:4] for x in (*operands, found, expected)]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("kind", ["normal", "wide", "near", "bfloat16", "any", "special", "denormal"])
def test_instructions_have_the_definitions_bits(kind: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    torch.manual_seed(0)
    a, b, c = (drawn(shape, kind) for shape in shapes)
    for fp32_dest in (False, True):
        assert_same_bits("aligned_sum", a, b, fp32_dest=fp32_dest)
    for vectors in ((True, True, True), (True, False, True), (False, True, False)):
        assert_same_bits("partially_fused", a, b, c, vectors=vectors)


def test_sums_that_cancel() -> None:
    torch.manual_seed(1)
    a, b = drawn((500, 64), "near"), drawn((500, 64), "near")
    assert_same_bits("partially_fused", a, b, -(a * b), vectors=(True, True, True))
    assert_same_bits("aligned_sum", a, -a * (1 + 2.0**-9), fp32_dest=True)
