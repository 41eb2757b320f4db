# SPDX-License-Identifier: Apache-2.0
"""A model of timm by its name, as the source of a bring-up."""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import nn

PREFIX = "timm:"


@dataclass(frozen=True)
class TimmSource:
    """`timm:NAME`: the architecture; its weights are given as a file, since timm fetches them from elsewhere."""

    spec: str
    shapes: tuple[tuple[int, ...], ...] = ()

    whose = "timm's own"

    @property
    def timm_name(self) -> str:
        return self.spec.removeprefix(PREFIX)

    @property
    def name(self) -> str:
        return re.sub(r"\W", "_", self.timm_name.lower())

    @cached_property
    def model(self) -> nn.Module:
        timm = _timm(self.spec)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            try:
                found = timm.create_model(self.timm_name, pretrained=False)
            except RuntimeError as error:
                raise ValueError(f"MODEL is {self.spec!r}: {error}; timm.list_models() has the names") from error
        if not isinstance(found, nn.Module):
            raise ValueError(f"MODEL is {self.spec!r}; timm gives a {type(found).__name__} for it")
        return found.eval()

    @property
    def input_shapes(self) -> tuple[tuple[int, ...], ...]:
        """What timm says of the model, where the user says nothing."""
        if self.shapes:
            return self.shapes
        said = getattr(self.model, "default_cfg", None) or {}
        if "input_size" not in said:
            raise ValueError(f"timm does not say what {self.timm_name} takes; say it: --input 1x3x224x224")
        return ((1, *(int(size) for size in said["input_size"])),)

    def create(self) -> nn.Module:
        return self.model

    def reference_code(self) -> str:
        return f'''"""The PyTorch model with its weights: what is right."""

from pathlib import Path

import timm
from torch import nn

from tt_cnn.preprocessing.weights.checkpoints import load_into

WEIGHTS = Path(__file__).parent / "weights.safetensors"


def create() -> nn.Module:
    model = timm.create_model("{self.timm_name}", pretrained=False)
    load_into(model, WEIGHTS)
    return model.eval()
'''

    def files(self) -> dict[str, bytes]:
        return {}


def timm_source(spec: str, shapes: Sequence[tuple[int, ...]] = ()) -> TimmSource:
    if not re.fullmatch(r"[\w.-]+", spec.removeprefix(PREFIX), re.ASCII):
        raise ValueError(f"MODEL is {spec!r}; it must be like timm:resnet18")
    return TimmSource(spec, tuple(shapes))


def _timm(spec: str) -> Any:
    try:
        return importlib.import_module("timm")
    except ImportError as error:
        missing = getattr(error, "name", None) or "timm"
        hint = "" if missing == "timm" else f" (timm imports {missing})"
        raise ValueError(
            f"MODEL is {spec!r}, and timm cannot be imported: {error}{hint}\n"
            "  pip install timm, and the torchvision made for your torch; or give the module itself, net.py:Net"
        ) from error
