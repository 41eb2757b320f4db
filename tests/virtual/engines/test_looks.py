# SPDX-License-Identifier: Apache-2.0
"""Looks at a replay's inputs by the kernels' library say what torch says."""

from __future__ import annotations

import math
import random

import pytest
import torch

from tt_cnn.virtual.engines.replay import ordinary
from tt_cnn.virtual.engines.replay.eight_bit.inputs import numbers_of, statistics
from tt_cnn.virtual.engines.replay.kernels import looks

SHAPES = (
    (1, 3, 224, 224), (1, 1, 3, 5000), (1, 1, 50176, 3), (7,), (2, 5), (3, 4, 5, 1), (1, 1, 1, 1), (2, 3, 17, 19),
    (1, 1, 1600, 64), (100, 3),
)  # fmt: skip
ODD = (math.nan, math.inf, -math.inf)


def image(shape: tuple[int, ...], seed: int) -> torch.Tensor:
    """Values of any size, in whole steps at times, with a part that is zero at times."""
    drawn = random.Random(seed)
    torch.manual_seed(seed)
    x = torch.randn(shape) * drawn.choice([1, 100, 1e-3]) + drawn.choice([0, 0, 0.5])
    if drawn.random() < 0.3:
        x = (x * 3).round()
    if len(shape) > 1 and drawn.random() < 0.3:
        x[..., -1] = 0
    return x * (drawn.random() < 0.9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_numbers_of_an_input_are_those_that_torch_finds(shape: tuple[int, ...], seed: int) -> None:
    x = image(shape, seed)
    found = torch.tensor(numbers_of(x))
    torch.testing.assert_close(found, statistics(x), rtol=1e-4, atol=1e-6 * float(x.abs().max()))
    part = torch.cat((x, x), -1)[..., : shape[-1]]  # no memory of its own, side by side
    torch.testing.assert_close(torch.tensor(numbers_of(part)), found, rtol=1e-4, atol=1e-6 * float(x.abs().max()))


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_what_is_not_finite_shows_wherever_it_is(shape: tuple[int, ...], odd: float) -> None:
    x = image(shape, 1)
    for place in {0, x.numel() // 2, x.numel() - 1}:
        y = x.clone()
        y.view(-1)[place] = odd
        assert not all(map(math.isfinite, numbers_of(y)))
        assert looks.are_within(y, ordinary.LARGEST) is False and not ordinary.are_ordinary([x, y])
    assert ordinary.are_ordinary([x, x[..., :1]])


def test_the_bound_itself_is_within() -> None:
    x = torch.zeros(37)
    for place in range(len(x)):
        for sign in (1, -1):
            y = x.clone()
            y[place] = sign * 8.0
            assert looks.are_within(y, 8.0) is True and looks.are_within(y, 7.99) is False


def test_values_that_the_library_does_not_take_are_left_to_torch() -> None:
    x = image((1, 3, 32, 32), 2)
    assert looks.are_within(x.double(), 1.0) is None and looks.are_within(x.permute(0, 2, 3, 1), 1.0) is None
    assert numbers_of(x.permute(0, 2, 3, 1)) == statistics(x.permute(0, 2, 3, 1)).tolist()
