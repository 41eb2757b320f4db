# SPDX-License-Identifier: Apache-2.0
"""Ops in place: on tensors that are read again, on views, and into parts of a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import Written, assert_comes_up, bring_up
from tt_cnn.bringup.comparison import torch_values

Forward = Callable[[Any, torch.Tensor], Any]


def in_place(m: Any, x: torch.Tensor) -> torch.Tensor:
    y = m.c(x)
    z = y.relu_()
    y += x
    return z * 2  # torch has the sum here, too


def written(write: Callable[[torch.Tensor], Any], read: Callable[[torch.Tensor], Any] = lambda y: y) -> Forward:
    """Something is written behind the back of the tensor that is read."""

    def forward(m: Any, x: torch.Tensor) -> Any:
        y = m.n(m.c(x))
        seen = read(y)
        write(y)
        return seen * 2

    return forward


def assign(index: Any, value: Callable[[torch.Tensor], Any]) -> Callable[[torch.Tensor], None]:
    def write(y: torch.Tensor) -> None:
        y[index] = value(y[index])

    return write


def shifted(m: Any, x: torch.Tensor) -> torch.Tensor:
    """Channels of the neighbours, into a tensor of zeros."""
    y = m.c(x)
    out = torch.zeros_like(y)
    out[:, :8, 1:] = y[:, :8, :-1]
    out[:, 8:16, :-1] = y[:, 8:16, 1:]
    out[:, 16:] = y[:, 16:]
    return out


def boxes(m: Any, x: torch.Tensor) -> torch.Tensor:
    """The head of a detector."""
    b, _, h, w = x.shape
    y = m.c(x).view(b, 4, 8, h, w).permute(0, 1, 3, 4, 2).contiguous().sigmoid()
    grid = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")[::-1], -1).float()
    y[..., 0:2] = (y[..., 0:2] * 2 - 0.5 + grid) * 8
    y[..., 2:4] = (y[..., 2:4] * 2) ** 2 * torch.tensor([10.0, 13.0])
    return y.view(b, -1, 8)


EVERY = slice(None)
IN_PLACE: dict[str, Forward] = {
    "relu": lambda m, x: F.relu(m.c(x), inplace=True),
    "sum": in_place,
    "dropout_of_view": lambda m, x: F.dropout(m.c(x).flatten(1), 0.5, False, True),
    "view_alone": lambda m, x: m.c(x).flatten(1).relu_(),
    "view": written(lambda y: y.view(1, 32, 64).relu_()),
    "base": written(lambda y: y.relu_(), lambda y: y.view(1, 32, 64)),
    "movedim": written(lambda y: y.movedim(1, -1).add_(torch.arange(32) / 8)),
    "ravel": written(lambda y: y.ravel().mul_(-1)),
    "mT": written(lambda y: y.mT.sub_(1)),
    "swapaxes": written(lambda y: y.mul_(3), lambda y: y.swapaxes(1, 2)),
    "tensor_split": written(lambda y: y.tensor_split(4, 1)[2].add_(2)),
    "slice": written(assign((EVERY, slice(0, 16)), F.relu)),
    "slice_with_steps": written(assign((EVERY, EVERY, slice(1, None, 2)), lambda part: part * 3)),
    "select": written(assign((EVERY, 5), lambda part: part.sigmoid())),
    "last_row": written(assign((EVERY, EVERY, -1), lambda part: part + 4)),
    "number": written(assign((EVERY, slice(8, 12)), lambda part: 0.5)),
    "zeros": written(lambda y: y[:, 3:9].zero_()),
    "one_number_of_each": written(assign((EVERY, EVERY, 3, 4), lambda part: part.exp())),
    "shift": shifted,
    "boxes": boxes,
}


def model_of(name: str) -> Written:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(32)
    norm.running_mean.normal_(0, 0.2)  # type: ignore[union-attr]
    norm.running_var.uniform_(0.5, 2)  # type: ignore[union-attr]
    return Written(IN_PLACE[name], c=nn.Conv2d(32, 32, 3, padding=1), n=norm)


@pytest.mark.parametrize("name", IN_PLACE)
def test_ops_in_place(name: str, device: Any) -> None:
    assert_comes_up(model_of(name), torch.randn(1, 32, 8, 8), device)


def test_a_batch_norm_is_folded_all_the_same() -> None:
    program, _ = bring_up(model_of("slice"), (1, 32, 8, 8))
    (conv,) = [layer for layer in program.layers() if layer.method == "conv2d"]
    assert [argument.path for argument in conv.arguments] == ["c", "n"]


def test_layers_are_compared_with_values_of_the_same_program() -> None:
    model, x = model_of("slice"), torch.randn(1, 32, 8, 8)
    program, _ = bring_up(model, (1, 32, 8, 8))
    nodes = {statement.node.name: statement for statement in program.statements if statement.node is not None}
    values = torch_values(model, [x], set(nodes))
    with torch.no_grad():
        assert torch.equal(values[next(name for name in nodes if name.startswith("mul"))], model(x))
