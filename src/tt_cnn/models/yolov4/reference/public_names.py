# SPDX-License-Identifier: Apache-2.0
"""The names of the public PyTorch checkpoint (`neek.conv1.conv.0.weight`) turned into the reference's."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

_CONV, _NORM = "0", "1"
_PLACE = re.compile(r"(?P<layer>.*)\.conv\.(?P<place>[01])\.(?P<rest>\w+)")


def from_public(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """A layer with a bias and no batch norm predicts; the reference has it as a plain convolution."""
    predictions = {name.removesuffix(".conv.0.bias") for name in weights if name.endswith(".conv.0.bias")}
    return {_renamed(name, predictions): value for name, value in weights.items()}


def _renamed(name: str, predictions: set[str]) -> str:
    found = _PLACE.fullmatch(name)
    if found is None:
        return name
    layer = found["layer"].replace("neek.", "neck.").replace("resblock.module_list.", "resblock.blocks.")
    if found["layer"] in predictions:
        return f"{layer}.{found['rest']}"
    part = {_CONV: "conv", _NORM: "norm"}[found["place"]]
    return f"{layer}.{part}.{found['rest']}"
