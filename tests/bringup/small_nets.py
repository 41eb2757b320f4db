# SPDX-License-Identifier: Apache-2.0
"""Small models as people write them, for the tests of the bring-up."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    """A residual block; some lack the shortcut's convolution."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + shortcut)


class SmallResNet(nn.Module):
    """Two stages, functional pooling and a linear layer: (N, 3, 32, 32) to (N, 10)."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16), Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32, 2), Block(32, 32), Block(32, 32))
        self.fc = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.stem(x)))
        x = self.layer2(self.layer1(x))
        return self.fc(x.mean([2, 3]))


class SmallUNet(nn.Module):
    """A skip over a transposed convolution, and two outputs: (N, 3, 32, 32) to (N, 2, 32, 32) and (N, 32, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Conv2d(3, 16, 3, padding=1)
        self.deep = nn.Conv2d(16, 32, 3, padding=1)
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.last = nn.Conv2d(32, 2, 1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        skip = F.silu(self.down(x))
        deep = F.relu(self.deep(F.max_pool2d(skip, 2)))
        return self.last(torch.cat([self.up(deep), skip], 1)), deep


class OnHost(nn.Module):
    """Has an op that the card has not."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.special.bessel_j0(self.conv(x)) + 1


class DependsOnValues(nn.Module):
    """Cannot be exported."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x


def not_a_model() -> int:
    return 1


class TwoInputs(nn.Module):
    """An image and a vector that is added to its channels; the vector is read first."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.conv = nn.Conv2d(3, 32, 3, padding=1)
        self.last = nn.Conv2d(32, 4, 1)

    def forward(self, image: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
        added = F.silu(self.embed(vector))[:, :, None, None]
        return self.last(F.relu(self.conv(image) + added))


class ChangesItsInput(nn.Module):
    """Normalises the image that it is given in place."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.sub_(0.5).div_(0.25)
        return self.conv(x) + x.mean()


class Data(nn.Module):
    """Does in Python what torch.export cannot follow; registered with a lowering of its own in the tests."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if float(x.abs().max()) >= 0 else x


class WithOwnLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 32, 3, padding=1)
        self.own = Data()
        self.last = nn.Conv2d(32, 8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.own(self.conv(x)))


def make_data(layers, module, name):  # type: ignore[no-untyped-def]
    """What is registered for `Data`."""
    return lambda x: layers.function(name, "multiply")(x, 2.0)


class AwkwardNames(nn.Module):
    """Attributes that the model on the card has as well, and Python's words."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1))
        self.device = nn.Conv2d(16, 16, 1)
        self.outputs = nn.ModuleDict({"in": nn.Conv2d(16, 8, 1), "x": nn.Conv2d(8, 8, 1)})
        self.add_module("class", nn.Conv2d(8, 8, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.device(self.layers(x))
        x = self.outputs["x"](self.outputs["in"](x))
        return getattr(self, "class")(x)


class Distance(nn.Module):
    """One value of two images through the same branch: it has no correlation with anything."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3, padding=1)
        self.fc = nn.Linear(16, 8)

    def branch(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (self.branch(one) - self.branch(other)).abs().sum(1)


class ReadsANumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y * y.abs().max().item()


class ReturnsANumber(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, float]:
        return self.conv(x), 3.0


class OfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 32)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        embedded: torch.Tensor = self.embedding(words)
        return embedded


class Places(nn.Module):
    """Where the largest values are: rounding alone chooses others."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 16, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        largest, places = self.conv(x).flatten(1).topk(5, dim=1)
        return largest, places
