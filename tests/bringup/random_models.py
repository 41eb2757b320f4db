# SPDX-License-Identifier: Apache-2.0
"""Random models of small ops on images and tokens, in which values are read several times, later, and as outputs."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

Op = Callable[..., torch.Tensor]

ONE: dict[str, Op] = {
    "relu": lambda m, x: F.relu(x),
    "silu": lambda m, x: x * torch.sigmoid(x),
    "conv": lambda m, x: m.conv(x),
    "conv_norm": lambda m, x: m.norm(m.conv(x)),
    "norm": lambda m, x: m.norm(x),
    "max_pool": lambda m, x: F.max_pool2d(x, 3, 1, 1),
    "up_and_down": lambda m, x: F.avg_pool2d(F.interpolate(x, scale_factor=2), 2),
    "shuffle": lambda m, x: x.reshape(x.shape[0], 4, 8, 8, 8).transpose(1, 2).reshape(x.shape),
    "turned_back": lambda m, x: x.transpose(2, 3).contiguous().view(x.shape),
    "tokens": lambda m, x: m.fc(x.flatten(2).transpose(1, 2)).transpose(1, 2).reshape(x.shape),
    "token_norm": lambda m, x: m.ln(x.flatten(2).transpose(1, 2)).transpose(1, 2).view(x.shape),
    "columns": lambda m, x: (
        16 * x.permute(0, 3, 1, 2).reshape(x.shape[0], 8, 256).softmax(-1).view(-1, 8, 32, 8).permute(0, 2, 3, 1)
    ),
    "gate": lambda m, x: x * x.mean((2, 3), keepdim=True).sigmoid(),
    "centred": lambda m, x: x - x.mean(1, keepdim=True),
    "rolled": lambda m, x: torch.roll(x, 3, 2),
    "half": lambda m, x: torch.cat(x.chunk(2, 1)[::-1], 1),
    "cut": lambda m, x: F.pad(x[:, :, 1:, :7], (0, 1, 1, 0)),
    "strided": lambda m, x: torch.cat([x[:, ::2], x[:, 1::2]], 1),
    "number": lambda m, x: 1 - x / 2,
}
TWO: dict[str, Op] = {
    "add": lambda m, x, y: x + y,
    "add_relu": lambda m, x, y: F.relu(x + y),
    "mul": lambda m, x, y: x * torch.sigmoid(y),
    "sub": lambda m, x, y: x - y,
    "cat": lambda m, x, y: m.join(torch.cat([x, y], 1)),
    "cat_rows": lambda m, x, y: torch.cat([x, y], 2)[:, :, 4:12],
    "turned": lambda m, x, y: x + y.transpose(2, 3),
    "max": lambda m, x, y: torch.maximum(x, y),
}


class RandomModel(nn.Module):
    """Steps of (name, operands by number); the input is number 0."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        chance = random.Random(seed)
        torch.manual_seed(seed)
        self.conv, self.norm, self.fc = nn.Conv2d(32, 32, 3, padding=1), nn.BatchNorm2d(32), nn.Linear(32, 32)
        self.ln, self.join = nn.LayerNorm(32), nn.Conv2d(64, 32, 1)
        self.norm.running_var.data = torch.rand(32) + 0.5
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        for made in range(1, chance.randint(3, 9)):
            name = chance.choice([*ONE, *TWO])
            operands = tuple(self._operand(made, chance) for _ in range(2 if name in TWO else 1))
            self.steps.append((name, operands))
        values = len(self.steps) + 1
        self.returned = sorted({values - 1, *(chance.randrange(1, values) for _ in range(chance.randint(0, 2)))})

    @staticmethod
    def _operand(made: int, chance: random.Random) -> int:
        """Mostly the last one."""
        return made - 1 if chance.random() < 0.6 else chance.randrange(made)

    def forward(self, x: torch.Tensor) -> Any:
        values = [x]
        for name, operands in self.steps:
            op = ONE.get(name) or TWO[name]
            values.append(op(self, *(values[each] for each in operands)))
        return tuple(values[each] for each in self.returned)

    def __repr__(self) -> str:
        return f"{self.steps} returns {self.returned}"
