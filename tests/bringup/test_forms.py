# SPDX-License-Identifier: Apache-2.0
"""Forms against torch: what a program of views makes of an index tensor is what the form says lies in memory."""

from __future__ import annotations

import random
from math import prod

import pytest
import torch

from tt_cnn.bringup.forms import IMAGE, Form, NotExpressible, image_form, nearest_order, order_of

PROGRAMS = 300


def seen_by_torch(form: Form) -> torch.Tensor:
    """The places in memory, as torch's dimensions have them."""
    memory = torch.arange(prod(form.runs)).reshape(form.runs or (1,))
    order = [run for dim in form.dims for run in dim]
    return memory.permute(order).reshape(form.shape) if order else memory.reshape(form.shape)


def random_shape(chance: random.Random) -> list[int]:
    return [chance.choice((1, 2, 3, 4, 6)) for _ in range(chance.randint(2, 4))]


def other_shape(size: int, chance: random.Random) -> list[int]:
    """Any shape of so many values."""
    shape = []
    while size > 1 and len(shape) < 4:
        factor = chance.choice([each for each in range(1, size + 1) if size % each == 0])
        shape.append(factor)
        size //= factor
    return [*shape, size] if size > 1 or not shape else shape


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_of_views(seed: int) -> None:
    """Permutations always go; a reshape goes where `reshaped` says so, and is refused where it would cut a run."""
    chance = random.Random(seed)
    shape = random_shape(chance)
    order = chance.sample(range(len(shape)), len(shape))
    form = Form.in_order(shape, order)
    expected = torch.arange(prod(shape)).reshape([shape[dim] for dim in order])
    expected = expected.permute([order.index(dim) for dim in range(len(shape))])
    for _ in range(chance.randint(1, 6)):
        if chance.random() < 0.5:
            turned = chance.sample(range(expected.dim()), expected.dim())
            form, expected = form.permuted(turned), expected.permute(turned)
        else:
            wanted = other_shape(expected.numel(), chance)
            try:
                form = form.reshaped(wanted)
            except NotExpressible:
                continue
            expected = expected.reshape(wanted)
        assert form.shape == tuple(expected.shape)
        assert 1 not in form.runs
        assert torch.equal(seen_by_torch(form), expected), (seed, form)
        check_orders(form, expected)


def check_orders(form: Form, expected: torch.Tensor) -> None:
    """An order that a form has is that of memory; moving to any order gives torch's tensor in it."""
    order = order_of(form)
    flat = torch.arange(expected.numel())
    if order is not None:
        assert torch.equal(expected.permute(order).reshape(-1), flat)
    for wanted in (tuple(range(expected.dim())), nearest_order(form)):
        shape, places = form.movement(wanted)
        moved = flat.reshape(shape or (1,)).permute(places or (0,)).reshape(-1)
        assert torch.equal(moved, expected.permute(wanted).reshape(-1))
        assert form.lies_in(wanted) == torch.equal(moved, flat)


def test_tokens_of_an_image_are_the_image_itself() -> None:
    form = image_form((2, 32, 7, 5)).reshaped((2, 32, 35)).permuted((0, 2, 1))
    assert form.lies_in((0, 1, 2))


def test_a_reshape_that_cuts_runs_is_refused() -> None:
    with pytest.raises(NotExpressible):
        Form.in_order((6, 4)).permuted((1, 0)).reshaped((3, 8))


def test_another_number_of_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="cannot be seen as"):
        Form.in_order((6, 4)).reshaped((5, 5))


def test_a_shuffle_of_channels_is_nearest_to_an_image() -> None:
    form = image_form((1, 8, 3, 5)).reshaped((1, 2, 4, 3, 5)).permuted((0, 2, 1, 3, 4)).reshaped((1, 8, 3, 5))
    assert order_of(form) is None and nearest_order(form)[1:] == IMAGE[1:]
