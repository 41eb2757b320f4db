# SPDX-License-Identifier: Apache-2.0
"""The vector unit's order of numbers: -0 before +0 and NaN last, in every place of a tensor."""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Callable

import pytest
import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.hosts import Kernels
from tt_cnn.virtual.numerics.steady import ordered, with_plain_nans
from tt_cnn.virtual.numerics.vector_unit import VectorUnit, order, run_binary, run_unary

INF, NAN = math.inf, math.nan
NUMBERS = (-INF, -6.0, -1.0, -1e-38, -1e-40, -0.0, 0.0, 1e-45, 1e-40, 1e-38, 1.0, 6.0, 7.0, INF, NAN)
"""From the first to the last."""
LENGTHS = (1, 3, 7, 8, 9, 15, 16, 17, 33, 64, 65)
"""Whole vectors of any machine, and what is left over behind them."""
PAIRS = list(itertools.product(range(len(NUMBERS)), repeat=2))


def bits(x: float) -> str:
    return "nan" if math.isnan(x) else struct.pack("f", x).hex()


def everywhere(numbers: list[float]) -> list[torch.Tensor]:
    """Each number in all places of tensors of all lengths, which begin in the middle of a vector too."""
    return [torch.tensor(numbers).repeat_interleave(n).reshape(len(numbers), n) for n in LENGTHS] + [
        torch.tensor([0.0] * 3 + numbers)[3:].unsqueeze(1)
    ]


@pytest.mark.parametrize(
    ("found", "right"),
    [
        (order.larger, max),
        (order.smaller, min),
        (functools.partial(run_binary, "maximum", unit=VectorUnit(fp32_dest=True)), max),
        (functools.partial(run_binary, "minimum", unit=VectorUnit(fp32_dest=True, exact=False)), min),
    ],
)
def test_of_two_numbers_the_same_is_chosen_in_every_place(
    found: Callable[..., torch.Tensor], right: Callable[[int, int], int]
) -> None:
    wanted = [bits(NUMBERS[right(i, j)]) for i, j in PAIRS]
    lefts, rights = everywhere([NUMBERS[i] for i, _ in PAIRS]), everywhere([NUMBERS[j] for _, j in PAIRS])
    for a, b in zip(lefts, rights, strict=True):
        for column in found(a, b).t().tolist():
            assert [bits(x) for x in column] == wanted


@pytest.mark.parametrize("bound", range(len(NUMBERS)))
def test_a_bound_is_taken_where_it_comes_later_or_earlier(bound: int) -> None:
    value = NUMBERS[bound]
    for x in everywhere(list(NUMBERS)):
        for column in order.at_least(x, value).t().tolist():
            assert [bits(y) for y in column] == [bits(NUMBERS[max(i, bound)]) for i in range(len(NUMBERS))]
        for column in order.at_most(x, value).t().tolist():
            assert [bits(y) for y in column] == [bits(NUMBERS[min(i, bound)]) for i in range(len(NUMBERS))]


@pytest.mark.parametrize("length", LENGTHS[1:])
def test_the_largest_and_smallest_of_many_hang_on_no_place(length: int) -> None:
    for i, j in PAIRS:
        rows = torch.full((length, length), NUMBERS[i])
        rows.fill_diagonal_(NUMBERS[j])
        for dim in (0, 1):
            assert {bits(x) for x in order.largest(rows, dims=(dim,)).flatten().tolist()} == {bits(NUMBERS[max(i, j)])}
            assert {bits(x) for x in order.smallest(rows, dims=(dim,)).flatten().tolist()} == {bits(NUMBERS[min(i, j)])}


UNIT = VectorUnit(fp32_dest=True, exact=False)


@pytest.mark.parametrize(
    ("name", "params", "right"),
    [
        ("relu", (), ((-0.0, 0.0), (-INF, 0.0), (NAN, NAN))),
        ("relu6", (), ((-0.0, 0.0), (-1.0, 0.0), (7.0, 6.0), (NAN, 6.0))),
        ("hardtanh", (), ((-0.0, -0.0), (7.0, 1.0), (NAN, 1.0), (-INF, -1.0))),
        ("clamp", (-1.0, -0.0), ((0.0, -0.0), (-0.0, -0.0), (NAN, -0.0), (-6.0, -1.0))),
        ("clamp", (0.0, None), ((-0.0, 0.0), (0.0, 0.0), (NAN, NAN))),
    ],
)
def test_rectifiers_keep_to_the_order(
    name: str, params: tuple[float, ...], right: tuple[tuple[float, float], ...]
) -> None:
    """SFPSWAP takes NaN for the largest number: clamped, it is the upper bound."""
    found = run_unary(name, torch.tensor([x for x, _ in right]), *params, unit=UNIT)
    assert [bits(x) for x in found.tolist()] == [bits(y) for _, y in right]


@pytest.mark.parametrize(
    ("name", "params"), [("relu", ()), ("relu6", ()), ("hardtanh", (0.0, 1.0)), ("hardtanh", (-0.0, 1.0))]
)
@pytest.mark.parametrize("fp32", [True, False])
def test_kernels_bound_as_torch_does(name: str, params: tuple[float, ...], fp32: bool) -> None:
    """`at_least` and `at_most` of the compiled replays, for channels that fill vectors and that do not."""
    unit = VectorUnit(fp32_dest=fp32, exact=False)
    for channels in (16, 21, 33):
        x = torch.tensor(NUMBERS).repeat(channels * 2)[: channels * 15].reshape(1, channels, 3, 5)
        nodes = graph_of(lambda x: [run_unary(name, x, *params, unit=unit)], [x], exact=True)
        (found,) = Kernels(nodes, 1)([x])
        wanted = run_unary(name, x, *params, unit=unit)
        assert [bits(v) for v in found.flatten().tolist()] == [bits(v) for v in wanted.flatten().tolist()]


def test_nan_of_either_sign_is_sorted_alike_on_a_gpu() -> None:
    """GPUs sort by bits, in which a NaN whose sign is set comes before minus infinity."""
    x = torch.tensor([1.0, -NAN, -INF, NAN, 0.5])
    plain = with_plain_nans(torch.where(x.isnan(), -torch.tensor(NAN), x))
    assert not plain[plain.isnan()].signbit().any()
    assert torch.equal(plain.nan_to_num(9.0), x.nan_to_num(9.0))
    for descending, wanted in ((False, [2, 4, 0, 1, 3]), (True, [1, 3, 0, 4, 2])):
        assert ordered(x, 0, descending)[1].tolist() == ordered(plain, 0, descending)[1].tolist() == wanted


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("descending", [False, True])
def test_nan_of_either_sign_is_sorted_on_the_gpu_as_on_the_cpu(descending: bool) -> None:
    x = torch.tensor([1.0, 0.5, -INF, 2.0, INF, -0.0, 0.0, -3.0])
    x[1], x[4] = NAN, -torch.tensor(NAN)
    assert ordered(x.cuda(), 0, descending)[1].tolist() == ordered(x, 0, descending)[1].tolist()


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("dim", [-1, -2])
def test_reductions_of_float32_choose_between_zeros(op: str, dim: int) -> None:
    x = torch.full((1, 1, 40, 40), -0.0)
    x[0, 0].fill_diagonal_(0.0)
    device = ttnn.open_device(device_id=0)
    try:
        given = ttnn.from_torch(x, dtype=ttnn.float32, layout=ttnn.TILE_LAYOUT, device=device)
        found = ttnn.to_torch(getattr(ttnn, op)(given, dim=dim, keepdim=True))
    finally:
        ttnn.close_device(device)
    assert bool((found.signbit() == (op == "min")).all())
