# SPDX-License-Identifier: Apache-2.0
"""Modules that are called again, inside of others and in lists, and modules that several hold."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.bringup.bringing import assert_comes_up
from tt_cnn.bringup.codegen.model_file import model_file


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv2(F.relu(self.bn1(self.conv1(x)))) + x)


class Stage(nn.Module):
    """Calls elements of its list, and a convolution that its owner has, too."""

    def __init__(self, given: nn.Module) -> None:
        super().__init__()
        self.given = given
        self.list = nn.ModuleList([nn.Sequential(nn.Conv2d(32, 32, 1), nn.ReLU()), nn.Sequential(Block(32))])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.given(x)
        for each in self.list:
            x = x + each(x)
        return x


class CalledAgain(nn.Module):
    """`tower_2` has the name that the second call of `tower` would have."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 32, 3, 2, 1)
        self.tower = nn.Sequential(Block(32), Block(32), nn.Conv2d(32, 32, 1), nn.SiLU())
        self.tower_2 = nn.Sequential(Block(32), nn.AvgPool2d(2))
        self.shared = nn.Conv2d(32, 32, 3, padding=1, groups=2)
        self.stage = Stage(self.shared)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.tower(self.stem(x))
        x = self.tower_2(x + self.tower(x * 0.5))
        x = self.stage(self.stage(x)) + self.shared(x)
        return self.tower_2(x)


class Tied(nn.Module):
    """A block that stands in a list twice, and two convolutions with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(8, 32, 1)
        self.blocks = nn.ModuleList([Block(32), Block(32)])
        self.blocks.append(self.blocks[0])
        self.first = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(32)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.second.weight = self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.second(F.relu(self.norm(self.first(x))))


class Lender(nn.Module):
    """Runs a module that is not its own."""

    def forward(self, x: torch.Tensor, given: nn.Module) -> torch.Tensor:
        return F.relu(given(x)) + given(x * 2)


class Lent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lender = Lender()
        self.parts = nn.ModuleDict({"conv": nn.Conv2d(32, 32, 1), "block": Block(32)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.lender(x, self.parts["conv"])
        return self.lender(x, self.parts["block"])


def seeded(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    model = kind()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.2)
            module.running_var.uniform_(0.5, 2)
    return model


@pytest.mark.parametrize(
    ("kind", "shape"),
    [(CalledAgain, (1, 3, 32, 48)), (Tied, (1, 8, 16, 24)), (Lent, (2, 32, 8, 16))],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_numbers(kind: type[nn.Module], shape: tuple[int, ...], device: Any) -> None:
    torch.manual_seed(1)
    assert_comes_up(seeded(kind), torch.randn(shape), device)


def code_of(kind: type[nn.Module], shape: tuple[int, ...], device: Any) -> str:
    return model_file(assert_comes_up(seeded(kind), torch.randn(shape), device), "A test.").code


def test_a_class_is_written_once_however_often_it_is_called(device: Any) -> None:
    code = code_of(CalledAgain, (1, 3, 32, 48), device)
    assert code.count("class TtStage") == 1
    assert 'self.stage_2 = TtStage(layers, reference.stage, "stage_2")' in code
    assert 'f"tower_3.{index}") for index, block in enumerate(reference.tower[:2]))' in code
    assert '(layers, reference.tower_2[0], "tower_2_2.0")' in code
    assert code.count("class TtBlock") == 2  # that in a stage must keep what it adds to


def test_names_of_layers_begin_with_those_of_the_calls_around_them(device: Any) -> None:
    program = assert_comes_up(seeded(CalledAgain), torch.randn(1, 3, 32, 48), device)
    names = [statement.layer.name for statement in program.statements]
    assert len(set(names)) == len(names)
    for statement in program.statements:
        assert f"{statement.layer.name}.".startswith(f"{statement.stack[-1].name}.".lstrip("."))
    assert {"stage.given", "stage_2.given", "stage_2.list.1.0.conv1", "tower_3.0.conv1", "tower_2_2.0.conv2"} <= set(
        names
    )


def test_modules_are_named_as_the_one_that_is_called_has_them(device: Any) -> None:
    code = code_of(Tied, (1, 8, 16, 24), device)
    assert 'layers.conv2d("second", reference.second)' in code
    assert 'layers.conv2d("first", reference.first, reference.norm, activation=nn.ReLU())' in code
    assert "for index, block in enumerate(reference.blocks)" in code
    assert not re.search(r"conv_of|batch_norm_of", code)
