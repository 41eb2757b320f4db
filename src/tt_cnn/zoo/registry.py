# SPDX-License-Identifier: Apache-2.0
"""Architectures by name: what is published of them, and how they are made.

A family is a module of this package, found by looking; each of its architectures is a function without arguments under
`register_architecture`. The function's name is the architecture's, the module's name is the family's.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import nn

from tt_cnn.models.initialization import natural_images
from tt_cnn.zoo.seeding import NORM_SHIFT, seed_weights

Task = Literal["classification", "detection", "segmentation", "keypoints", "depth", "super-resolution"]
Factory = Callable[[], nn.Module]

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
FEW_PIXELS = 240 * 240
"""Up to here statistics are measured on four images, beyond on two."""


@dataclass(frozen=True)
class Architecture:
    """What is known of an architecture before it is made."""

    name: str
    family: str
    title: str
    paper: str
    """Authors and year."""
    licence: str
    """Of the published weights, or of the authors' code; "" where it is not known."""
    task: Task
    input_shape: tuple[int, int, int]
    """Channels, height, width of the default input."""
    outputs: tuple[str, ...]
    """One name for each tensor that `forward` returns: one tensor, or a tuple of them."""
    factory: Factory
    parameters: float | None
    """Published, in millions."""
    gmacs: float | None
    """Published multiply-adds at the default input, in billions."""
    unit_range: bool = False
    """Whether it takes images between 0 and 1 as they are; else these are normalised as ImageNet's."""
    residuals: tuple[str, ...] = ()
    """Patterns of names: the modules, or bare parameters, that end residual branches (see `seeding`)."""
    norm_shift: float = NORM_SHIFT
    """Mean of the norms' shifts in seeded weights (see `seeding`)."""

    def example_input(self, *, batch_size: int = 1, seed: int = 0) -> torch.Tensor:
        """Seeded images, (batch, channels, height, width), as the architecture takes them."""
        channels, height, width = self.input_shape
        pictures = natural_images(batch_size, (height, width), seed)[:, :channels]
        if self.unit_range:
            return pictures
        mean, std = (torch.tensor(values[:channels]).view(1, -1, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        return (pictures - mean) / std


_ARCHITECTURES: dict[str, Architecture] = {}


def register_architecture(
    title: str,
    paper: str,
    *,
    task: Task = "classification",
    licence: str = "",
    input_shape: tuple[int, int, int] = (3, 224, 224),
    outputs: tuple[str, ...] = ("logits",),
    parameters: float | None = None,
    gmacs: float | None = None,
    unit_range: bool = False,
    residuals: tuple[str, ...] = (),
    norm_shift: float = NORM_SHIFT,
) -> Callable[[Factory], Factory]:
    """Make the function that follows known by its name."""
    if task not in get_args(Task):
        raise ValueError(f"task is {task!r}; it must be one of {', '.join(get_args(Task))}")

    def register(factory: Factory) -> Factory:
        name = factory.__name__
        if name in _ARCHITECTURES:
            raise ValueError(f"there is an architecture {name!r} already ({_ARCHITECTURES[name].title})")
        _ARCHITECTURES[name] = Architecture(
            name=name,
            family=factory.__module__.rpartition(".")[2],
            title=title,
            paper=paper,
            licence=licence,
            task=task,
            input_shape=input_shape,
            outputs=outputs,
            factory=factory,
            parameters=parameters,
            gmacs=gmacs,
            unit_range=unit_range,
            residuals=residuals,
            norm_shift=norm_shift,
        )
        return factory

    return register


def list_architectures(task: Task | None = None, family: str | None = None) -> list[str]:
    """The names of all architectures, or of those for one task or of one family."""
    _discover()
    return sorted(a.name for a in _ARCHITECTURES.values() if task in (None, a.task) and family in (None, a.family))


def architecture(name: str) -> Architecture:
    """What is known of one architecture."""
    _discover()
    if name not in _ARCHITECTURES:
        raise ValueError(f"there is no architecture {name!r}; there are {', '.join(list_architectures())}")
    return _ARCHITECTURES[name]


def create_architecture(name: str, seed: int = 0) -> nn.Module:
    """The PyTorch model in eval mode, with seeded weights and statistics measured on images.

    Activations have the sizes that they have in a trained model, and outputs depend on inputs.
    """
    found = architecture(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = found.factory()
    _, height, width = found.input_shape
    pictures = found.example_input(batch_size=4 if height * width <= FEW_PIXELS else 2, seed=seed + 1)
    seed_weights(model, pictures, seed, found.residuals, found.norm_shift)
    return model.eval()


def _discover() -> None:
    package = importlib.import_module("tt_cnn.zoo")
    for found in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"tt_cnn.zoo.{found.name}")
