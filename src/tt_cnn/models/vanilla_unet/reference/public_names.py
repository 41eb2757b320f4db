# SPDX-License-Identifier: Apache-2.0
"""The names of the brain-MRI checkpoint (`encoder1.enc1conv1.weight`) turned into the reference's."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

PLACES = {"conv1": 0, "norm1": 1, "conv2": 3, "norm2": 4}
"""Where each layer is in the reference's blocks."""

_LAYER = re.compile(r"(?P<block>encoder\d|decoder\d|bottleneck)\.(enc\d|dec\d|bottleneck)(?P<layer>\w+)\.(?P<rest>\w+)")


def from_public(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Layers outside the blocks have the same names in both."""
    return {_renamed(name): value for name, value in weights.items()}


def _renamed(name: str) -> str:
    found = _LAYER.fullmatch(name)
    if found is None or found["layer"] not in PLACES:
        return name
    return f"{found['block']}.{PLACES[found['layer']]}.{found['rest']}"
