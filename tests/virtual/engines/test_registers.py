# SPDX-License-Identifier: Apache-2.0
"""Compiled primitives outside of traces: bit for bit what the torch functions that define them give."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tt_cnn.virtual.engines.replay.kernels.instructions import ROUNDINGS
from tt_cnn.virtual.engines.replay.kernels.registers import COMPILED, multiplied
from tt_cnn.virtual.kernel_library import library
from tt_cnn.virtual.numerics.fidelity import phases_of, to_source
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
    elif scales == "tiny":
        x = x * 2.0 ** torch.randint(-50, -42, (rows, columns))
    elif scales == "alike":  # sums as large as they can get
        x = torch.full_like(x, 1.9921875) * 2.0 ** torch.randint(-1, 1, (rows, columns))
    elif scales == "large":
        x = x * 2.0 ** torch.randint(20, 33, (rows, columns))
    elif scales == "sparse":
        x = x * (torch.rand(rows, columns) < 0.2)
    elif scales == "whole":
        x = x.mul(4).round()
    return to_source(host_round(x, dtype), dtype)


def assert_same_bits(found: torch.Tensor, expected: torch.Tensor) -> None:
    same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
    assert found.shape == expected.shape
    assert bool(same.all()), (found[~same][:4], expected[~same][:4])


def widths() -> list[int]:
    """Columns at a time of every way that this machine has."""
    return [width for width in (1, 8, 16) if width <= library("units").widest()]


@pytest.mark.parametrize("fp32", [False, True])
@pytest.mark.parametrize("fidelity", FIDELITIES)
@pytest.mark.parametrize("scales", ["normal", "wide", "small", "tiny", "sparse", "whole", "alike", "large"])
def test_a_product_follows_the_register_bit_for_bit(fidelity: MathFidelity, fp32: bool, scales: str) -> None:
    torch.manual_seed(0)
    for dtype, (rows, inner, columns) in (
        (DataType.BFLOAT16, (45, 96, 40)),
        (DataType.BFLOAT8_B, (33, 160, 64)),
        (DataType.BFLOAT4_B, (1, 64, 16)),
        (DataType.FLOAT32, (70, 50, 33)),
    ):
        padded = inner + (-inner % 32)
        x, w = (
            operand(rows, padded, dtype, scales)[:, :inner],
            operand(inner, columns + (-columns % 32), dtype, scales)[:, :columns],
        )
        wild = torch.randn(rows, columns) * 2.0 ** torch.randint(-40, 30, (rows, columns))
        for start in (None, host_round(wild, DataType.BFLOAT16), wild, torch.zeros(rows, columns).neg()):
            tensors = [x, w] if start is None else [x, w, start]
            expected = PRIMITIVES["followed_product"].function(*tensors, fidelity=fidelity, fp32_dest=fp32)
            assert_same_bits(COMPILED["followed_product"](*tensors, fidelity=fidelity, fp32_dest=fp32), expected)
            for width in widths():
                found = multiplied(x, w, start, len(phases_of(fidelity)), fp32, width)
                assert found is not None
                assert_same_bits(found, expected)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31), st.integers(1, 40), st.integers(1, 200), st.integers(1, 70), st.sampled_from(FIDELITIES),
    st.booleans(), st.integers(-60, 60), st.integers(0, 60),
)  # fmt: skip
def test_products_of_any_shape_and_scale(
    seed: int, rows: int, inner: int, columns: int, fidelity: MathFidelity, fp32: bool, middle: int, spread: int
) -> None:
    torch.manual_seed(seed)
    x, w = (
        to_source(torch.randn(shape) * 2.0 ** torch.randint(middle - spread, middle + spread + 1, shape), dtype)
        for shape, dtype in (((rows, inner), DataType.FLOAT32), ((inner, columns), DataType.FLOAT32))
    )
    expected = PRIMITIVES["followed_product"].function(x, w, fidelity=fidelity, fp32_dest=fp32)
    for width in widths():
        found = multiplied(x, w, None, len(phases_of(fidelity)), fp32, width)
        assert found is not None or middle + spread > 30  # what may not stay finite is left to torch
        if found is not None:
            assert_same_bits(found, expected)


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
        for options in parameters:
            found, expected = COMPILED[name](x, **options), PRIMITIVES[name].function(x, **options)
            same = (found.view(torch.int32) == expected.view(torch.int32)) | (found.isnan() & expected.isnan())
            assert found.shape == expected.shape and bool(same.all())


def test_memory_is_used_again_where_asked_for() -> None:
    x = torch.randn(200, 64)
    expected = PRIMITIVES["to_bfloat16"].function(x)
    found = COMPILED["to_bfloat16"](x, inplace=True)
    assert found.data_ptr() == x.data_ptr() and torch.equal(found, expected)
