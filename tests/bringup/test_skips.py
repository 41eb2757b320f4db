# SPDX-License-Identifier: Apache-2.0
"""Placements of tensors that wait: they change where tensors lie, never what they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from tests.bringup.bringing import Written, assert_comes_up
from tests.bringup.random_models import RandomModel
from tt_cnn import ttnn
from tt_cnn.bringup.codegen.model_file import model_file
from tt_cnn.bringup.lowering import lower
from tt_cnn.bringup.lowering.skips import METHOD, drop_placements, place_skips, placements
from tt_cnn.bringup.torch_graph import export_graph

IN_DRAM = {METHOD: {"memory_config": ttnn.DRAM_MEMORY_CONFIG}}


def conv(channels: int, outputs: int | None = None, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(channels, outputs or channels, 3, stride=stride, padding=1)


def chain(model: Any, x: torch.Tensor, *names: str) -> torch.Tensor:
    for name in names:
        x = torch.relu(getattr(model, name)(x))
    return x


def read_three_times(model: Any, x: torch.Tensor) -> torch.Tensor:
    x = model.first(x)
    y = chain(model, x, "a", "b", "c")
    z = chain(model, x + y, "d", "e", "f")
    return x * z


def u_shaped(model: Any, x: torch.Tensor) -> torch.Tensor:
    large = model.first(x)
    small = chain(model, nn.functional.max_pool2d(large, 2), "a", "b", "c")
    return torch.cat([nn.functional.interpolate(small, scale_factor=2), large], 1)


def read_late_as_a_view(model: Any, x: torch.Tensor) -> torch.Tensor:
    x = model.first(x)
    return x.flatten(2) * chain(model, x, "a", "b", "c").flatten(2)


def kept_as_an_output(model: Any, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x = model.first(x)
    return x, x + chain(model, x, "a", "b", "c")


def halves_of_one(model: Any, x: torch.Tensor) -> torch.Tensor:
    one, other = model.first(x).chunk(2, 1)
    return torch.cat([one, torch.cat([one, other], 1) + chain(model, torch.cat([other, one], 1), "a", "b", "c")], 1)


FORWARDS = (read_three_times, u_shaped, read_late_as_a_view, kept_as_an_output, halves_of_one)


def written(forward: Callable[..., Any]) -> nn.Module:
    return Written(forward, first=conv(8, 32), **{name: conv(32) for name in "abcdef"})


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda forward: forward.__name__)
def test_skips_in_dram(forward: Callable[..., Any], device: Any) -> None:
    x = torch.randn(2, 8, 12, 20, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(0)
    program = assert_comes_up(written(forward), x, device, change=place_skips, settings=IN_DRAM)
    assert placements(program) or forward in (read_late_as_a_view, kept_as_an_output, halves_of_one)


@pytest.mark.parametrize("seed", range(10))
def test_random_models_with_all_skips_in_dram(seed: int, device: Any) -> None:
    x = torch.randn(1 + seed % 2, 32, 8, 8, generator=torch.Generator().manual_seed(seed))
    assert_comes_up(RandomModel(seed), x, device, least=0.995, change=place_skips, settings=IN_DRAM)


@pytest.mark.parametrize("forward", FORWARDS, ids=lambda forward: forward.__name__)
def test_what_is_taken_out_leaves_no_trace(forward: Callable[..., Any]) -> None:
    program = lower(export_graph(written(forward).eval(), [torch.zeros(1, 8, 12, 20)]))
    before = model_file(program, "A test.").code
    place_skips(program)
    placed = model_file(program, "A test.").code
    names = placements(program)
    assert drop_placements(program, lambda name: True) == frozenset(names)
    assert model_file(program, "A test.").code == before
    place_skips(program)
    assert model_file(program, "A test.").code == placed, "names do not depend on what was there before"


def test_a_tensor_is_placed_where_it_waits_longest() -> None:
    program = lower(export_graph(written(read_three_times).eval(), [torch.zeros(1, 8, 12, 20)]))
    place_skips(program)
    order = [layer.name for layer in program.layers()]
    first = program.statements[order.index("first")].outputs[0]
    placement = next(each for each in program.statements if each.layer.method == METHOD and first in each.inputs)
    place = order.index(placement.layer.name)
    assert order[place - 1] == "add" and order[-1].startswith("mul")
    assert placement.outputs[0] in program.statements[-1].inputs
