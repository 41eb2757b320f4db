# SPDX-License-Identifier: Apache-2.0
"""Graphs of the zoo, exported once without values, and one thread for all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.bringup.graph_copy import copy_graph
from tt_cnn.bringup.lowering import lower
from tt_cnn.bringup.lowering.program import Program
from tt_cnn.bringup.outcomes import Outcome, outcomes
from tt_cnn.bringup.torch_graph import TorchGraph, export_graph
from tt_cnn.zoo import architecture


@dataclass(frozen=True)
class BroughtUp:
    """A model with its graph before the passes and after the lowering."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    exported: TorchGraph
    program: Program

    @property
    def outcomes(self) -> dict[str, Outcome]:
        return outcomes(self.exported, self.program)


def bring_up(model: nn.Module, *inputs: torch.Tensor) -> BroughtUp:
    graph = export_graph(model.eval(), inputs)
    exported = copy_graph(graph)
    return BroughtUp(model, inputs, exported, lower(graph))


@cache
def of_zoo(name: str) -> BroughtUp:
    entry = architecture(name)
    with torch.device("meta"):
        model = entry.factory().eval()
    return bring_up(model, torch.empty(1, *entry.input_shape, device="meta"))


class Bessel(nn.Module):
    """TT-NN has `i0`; nobody lowers it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.i0(x)


class Fallbacks(nn.Module):
    """One op that falls back, at two places."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.conv, self.second = Bessel(), nn.Conv2d(3, 4, 3), Bessel()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.conv(self.first(x)))


@pytest.fixture(scope="session")
def zoo() -> Callable[[str], BroughtUp]:
    return of_zoo


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def device() -> Iterator[Any]:
    opened = ttnn.open_device(device_id=0, l1_small_size=32768, card="n150")
    yield opened
    ttnn.close_device(opened)
