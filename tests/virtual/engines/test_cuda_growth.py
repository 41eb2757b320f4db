# SPDX-License-Identifier: Apache-2.0
"""Which graphs leave room in float16 for inputs that are larger than the first ones."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tt_cnn.virtual.engines.replay.capture import graph_of
from tt_cnn.virtual.engines.replay.cuda.growth import UNKNOWN, power_of_command, powers

Function = Callable[[torch.Tensor], torch.Tensor]
WEIGHT = torch.randn(8, 8, 3, 3)


def power(function: Function, of_input: float = 1.0) -> float:
    nodes = graph_of(lambda x: [function(x)], [torch.randn(1, 8, 6, 6)], False)
    return max(powers(nodes, lambda number: of_input).values())


def standardized(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: F.relu(F.conv2d(x, WEIGHT)), 1.0),
        (lambda x: x * torch.sigmoid(x), 1.0),
        (lambda x: x * x, 2.0),
        (lambda x: (x * x) * (x * x), 4.0),
        (lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2), 2.0),
        (lambda x: torch.exp(torch.tanh(x)) + x, 1.0),
        (lambda x: torch.softmax(x, 1) + x, 1.0),
        (lambda x: x / 3.0, 1.0),
        (torch.exp, UNKNOWN),
        (torch.log, UNKNOWN),
        (torch.reciprocal, UNKNOWN),
        (lambda x: torch.reciprocal(torch.sigmoid(x)), UNKNOWN),
        (lambda x: x / (x + 3.0), UNKNOWN),
        (lambda x: x / (x.abs() + 3.0), 1.0),
    ],
)
def test_values_grow_as_a_power_of_the_inputs(function: Function, expected: float) -> None:
    assert power(function) == expected


def test_what_a_norm_divides_by_is_not_near_zero() -> None:
    assert math.isfinite(power(standardized))


def test_sums_of_sums_are_looked_at_once() -> None:
    def doubled(x: torch.Tensor) -> torch.Tensor:
        for _ in range(60):
            x = F.relu(x) + x
        return 1.0 / (x * x + 1.0)

    assert math.isfinite(power(doubled))


def test_powers_go_through_commands_that_torch_runs() -> None:
    assert power_of_command("ttnn.sort", [2.0]) == 2.0
    assert power_of_command("ttnn.layer_norm", [UNKNOWN, 0.0]) == 0.0
    assert power_of_command("ttnn.expm1", [1.0]) == UNKNOWN
    assert power(lambda x: x + 1.0, UNKNOWN) == UNKNOWN


@pytest.mark.parametrize(
    "function",
    [lambda x: x * x, lambda x: (x * x) * x, lambda x: F.conv2d(x, WEIGHT) * x[..., 1:-1, 1:-1], standardized],
)
def test_inputs_four_times_as_large_give_values_of_that_power(function: Function) -> None:
    x = torch.randn(1, 8, 6, 6)
    assert float(function(4.0 * x).abs().max() / function(x).abs().max()) <= 4.0 ** power(function) * (1 + 1e-5)
