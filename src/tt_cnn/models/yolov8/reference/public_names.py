# SPDX-License-Identifier: Apache-2.0
"""The names of the public checkpoint (`model.2.m.0.cv1.bn.weight`) turned into the reference's."""

from __future__ import annotations

import re
from collections.abc import Mapping

import torch

_LAYERS = {
    "0": "backbone.stem",
    "1": "backbone.stage1.down",
    "2": "backbone.stage1.c2f",
    "3": "backbone.stage2.down",
    "4": "backbone.stage2.c2f",
    "5": "backbone.stage3.down",
    "6": "backbone.stage3.c2f",
    "7": "backbone.stage4.down",
    "8": "backbone.stage4.c2f",
    "9": "backbone.sppf",
    "12": "neck.up1",
    "15": "neck.up2",
    "16": "neck.down1",
    "18": "neck.c2f1",
    "19": "neck.down2",
    "21": "neck.c2f2",
    "22": "head",
}
"""Its layers have numbers, those without weights too."""
_BRANCHES = {"cv2": "boxes", "cv3": "classes"}
_PARTS = {"cv1": "conv1", "cv2": "conv2", "m": "blocks", "bn": "norm"}
_LAYER = re.compile(r"model\.(?P<number>\d+)\.(?P<rest>.+)")
_IN_HEAD = re.compile(r"(?P<branch>cv[23])\.(?P<stride>\d)\.(?P<place>\d)\.(?P<rest>.+)")
_CONSTANT = "dfl.conv.weight"
"""The distances 0 to 15, no parameters."""


def from_public(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {_renamed(name): value for name, value in weights.items() if not name.endswith(_CONSTANT)}


def _renamed(name: str) -> str:
    found = _LAYER.fullmatch(name)
    if found is None or found["number"] not in _LAYERS:
        return name
    rest = found["rest"]
    in_head = _IN_HEAD.fullmatch(rest) if _LAYERS[found["number"]] == "head" else None
    if in_head is not None:
        place = f"conv{int(in_head['place']) + 1}"
        return f"head.{_BRANCHES[in_head['branch']]}.{in_head['stride']}.{place}.{_own(in_head['rest'])}"
    return f"{_LAYERS[found['number']]}.{_own(rest)}"


def _own(rest: str) -> str:
    return ".".join(_PARTS.get(part, part) for part in rest.split("."))
