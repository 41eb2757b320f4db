# SPDX-License-Identifier: Apache-2.0
"""Ops that are other ops under another name, or are made of them, and choices by conditions: none is left to torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import Written, assert_comes_up
from tt_cnn import ttnn

OPS: dict[str, Callable[[torch.Tensor], Any]] = {
    "multiply": lambda x: torch.multiply(x, 2.5),
    "subtract": lambda x: torch.subtract(x, x.mean((2, 3), keepdim=True)),
    "divide": lambda x: torch.divide(x, x.abs() + 1),
    "true_divide": lambda x: torch.true_divide(x, 3),
    "negative": torch.negative,
    "absolute": torch.absolute,
    "clip": lambda x: x.clip(-0.5, 1),
    "matrix transpose": lambda x: x.flatten(2).mT,
    "movedim": lambda x: x.movedim(1, -1),
    "movedim of several": lambda x: x.movedim((1, 2), (2, 1)),
    "hstack": lambda x: torch.hstack([x, x * 2]),
    "tile": lambda x: x.mean((2, 3), keepdim=True).tile(1, 1, 2, 2),
    "channels in another order": lambda x: x[:, [2, 1, 0, 5]],
    "index_select": lambda x: x.index_select(1, torch.tensor([4, 5, 6, 1])),
    "flip of channels": lambda x: x[:, :8].flip(1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 1) + x.repeat_interleave(2, 1).mean((2, 3), keepdim=True),
    "repeat_interleave of rows": lambda x: x.repeat_interleave(3, 2),
    "reflected borders": lambda x: F.pad(x, (2, 1, 1, 3), mode="reflect"),
    "replicated borders": lambda x: F.pad(x, (2, 1, 0, 3), mode="replicate"),
    "circular borders": lambda x: F.pad(x, (0, 1, 2, 0), mode="circular"),
    "var": lambda x: x.var((2, 3)),
    "var of all, uncorrected": lambda x: x.var(1, correction=0, keepdim=True),
    "std": lambda x: x.std(1),
    "rms_norm": lambda x: F.rms_norm(x.flatten(2), (64,)),
    "log_softmax": lambda x: F.log_softmax(x.mean((2, 3)), 1),
    "log_softmax of far values": lambda x: F.log_softmax(x.mean((2, 3)) * 500, 1),
    "logsumexp": lambda x: torch.logsumexp(x, 1),
    "logsumexp of large values": lambda x: torch.logsumexp(x * 100, 1, keepdim=True),
    "glu": lambda x: F.glu(x, 1),
    "addcmul": lambda x: torch.addcmul(x, x, x.sigmoid()),
    "lerp": lambda x: torch.lerp(x, x.relu(), 0.25),
    "negative power": lambda x: (x.abs() + 1) ** -2,
    "floor_divide": lambda x: torch.floor_divide(x * 16, 2),
    "masked_fill": lambda x: x.masked_fill(x > 1, -3.0),
    "where of numbers": lambda x: torch.where(x > 0, x * 2, 0.5),
    "where of two tensors": lambda x: torch.where(x < 0.5, x.exp(), x),
    "mask as numbers": lambda x: x * (x >= 0.25).float(),
    "both conditions": lambda x: torch.where((x > -1) & (x < 1), x, x.sign()),
    "one of two conditions": lambda x: torch.where((x < -1) | ~(x < 1), x * 0, x),
    "equal and unequal": lambda x: (x == x.relu()).float() + (x != x.relu()).float() * 2,
    "remainder": lambda x: torch.remainder(x * 8, 3),
    "celu": lambda x: F.celu(x, 0.5),
    "hardshrink": lambda x: F.hardshrink(x, 0.25),
    "softshrink": lambda x: F.softshrink(x, 0.25),
    "threshold": lambda x: F.threshold(x, 0.25, -1.0),
    "logsigmoid": F.logsigmoid,
    "tan": lambda x: torch.tan(x * 0.3),
    "sinh": torch.sinh,
    "asinh": torch.asinh,
    "exp2": torch.exp2,
    "log2": lambda x: torch.log2(x.abs() + 1),
    "erfc": torch.erfc,
    "round": lambda x: torch.round(x * 8),
    "trunc": lambda x: torch.trunc(x * 8),
    "pool whose places nobody reads": lambda x: F.max_pool2d(x, 2, return_indices=True)[0],
}


def images(batch: int = 1) -> torch.Tensor:
    """Values that bfloat16 holds, so that conditions are the same on the card."""
    torch.manual_seed(0)
    return torch.randn(batch, 16, 8, 8).bfloat16().float()


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("name", OPS)
def test_it_runs_on_the_card(name: str, batch: int, device: Any) -> None:
    assert_comes_up(Written(lambda m, x: OPS[name](x)), images(batch), device, least=0.998)


def test_products_with_a_sum(device: Any) -> None:
    matrices = Written(lambda m, x: torch.addmm(m.fc.bias, x.mean((2, 3)), m.fc.weight.mT), fc=nn.Linear(16, 24))
    assert_comes_up(matrices, images(2), device)


def test_convolutions_of_lines(device: Any) -> None:
    """Of channels as well, as gates have it that look at neighbouring channels."""
    torch.manual_seed(0)
    lines = Written(lambda m, x: m.c(x.flatten(2)), c=nn.Conv1d(16, 32, 5, 2, 2))
    assert_comes_up(lines, images(2), device, settings={"conv2d": {"weights_dtype": ttnn.bfloat16}})
    gate = Written(
        lambda m, x: x * m.c(x.mean((2, 3)).unsqueeze(1)).sigmoid().transpose(1, 2)[..., None],
        c=nn.Conv1d(1, 1, 3, padding=1, bias=False),
    )
    assert_comes_up(gate, images(2), device)


@pytest.mark.parametrize(
    "forward",
    [
        lambda x: x.topk(3, 1)[0],
        lambda x: torch.cumsum(x, 2),
        lambda x: x.sort(1)[0] + x,
        lambda x: F.pixel_shuffle(x[0], 2),
    ],
    ids=["topk", "cumsum", "sort", "pixel shuffle of one image"],
)
def test_other_ops_are_left_to_torch_and_counted(forward: Callable[..., Any], device: Any) -> None:
    assert_comes_up(Written(lambda m, x: forward(x)), images(), device, fallbacks=1)


def test_places_that_torch_gives_stay_whole_numbers(device: Any) -> None:
    """1000 places: bfloat16 would give 992 for 991."""
    assert_comes_up(Written(lambda m, x: x.flatten(1).topk(64, 1)[1]), images(2), device, least=1.0 - 1e-9, fallbacks=1)
