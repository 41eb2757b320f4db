# SPDX-License-Identifier: Apache-2.0
"""The architecture: sizes as published, and the public checkpoint's names."""

from __future__ import annotations

import pytest
import torch

from tt_cnn.models import model_entry
from tt_cnn.models.yolov8.reference.public_names import from_public

PUBLISHED = {"yolov8s": 11_166_560, "yolov8x": 68_229_648}
"""Parameters, with the 16 constants of the distances."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_it_has_as_many_parameters_as_published(name: str) -> None:
    assert sum(p.numel() for p in model_entry(name).reference().parameters()) + 16 == PUBLISHED[name]


def test_predictions_and_maps() -> None:
    model = model_entry("yolov8s").reference(classes=3).eval()
    images = torch.rand(2, 3, 64, 96)
    with torch.no_grad():
        assert model(images).shape == (2, 4 + 3, 8 * 12 + 4 * 6 + 2 * 3)
        assert [tuple(m.shape) for m in model.maps(images)] == [(2, 67, 8, 12), (2, 67, 4, 6), (2, 67, 2, 3)]


@pytest.mark.parametrize(
    ("public", "own"),
    [
        ("model.0.conv.weight", "backbone.stem.conv.weight"),
        ("model.1.bn.running_mean", "backbone.stage1.down.norm.running_mean"),
        ("model.2.cv1.conv.weight", "backbone.stage1.c2f.conv1.conv.weight"),
        ("model.2.m.0.cv2.bn.weight", "backbone.stage1.c2f.blocks.0.conv2.norm.weight"),
        ("model.9.cv2.conv.weight", "backbone.sppf.conv2.conv.weight"),
        ("model.12.cv2.bn.bias", "neck.up1.conv2.norm.bias"),
        ("model.16.conv.weight", "neck.down1.conv.weight"),
        ("model.22.cv2.0.1.bn.weight", "head.boxes.0.conv2.norm.weight"),
        ("model.22.cv3.2.2.bias", "head.classes.2.conv3.bias"),
    ],
)
def test_public_names(public: str, own: str) -> None:
    assert own in model_entry("yolov8s").reference().state_dict()
    assert list(from_public({public: torch.zeros(1), "model.22.dfl.conv.weight": torch.zeros(1)})) == [own]


def test_public_names_and_ours_are_one_to_one() -> None:
    """Every name of the reference, turned into the public one and back."""
    layers = {
        "backbone.stem": 0, "backbone.sppf": 9, "neck.up1": 12, "neck.up2": 15, "neck.down1": 16, "neck.c2f1": 18,
        "neck.down2": 19, "neck.c2f2": 21,
    }  # fmt: skip
    for stage in range(1, 5):
        layers |= {f"backbone.stage{stage}.down": 2 * stage - 1, f"backbone.stage{stage}.c2f": 2 * stage}
    names = list(model_entry("yolov8x").reference().state_dict())
    public = [_public(name, layers) for name in names]
    assert list(from_public(dict.fromkeys(public, torch.zeros(1)))) == names


def _public(name: str, layers: dict[str, int]) -> str:
    if name.startswith("head."):
        _, kind, stride, conv, *rest = name.split(".")
        branch = {"boxes": "cv2", "classes": "cv3"}[kind]
        inside = ".".join(rest).replace("norm.", "bn.")
        return f"model.22.{branch}.{stride}.{int(conv[-1]) - 1}.{inside}"
    layer = next(each for each in layers if name.startswith(f"{each}."))
    rest = name.removeprefix(f"{layer}.").split(".")
    words = {"conv1": "cv1", "conv2": "cv2", "blocks": "m", "norm": "bn"}
    return f"model.{layers[layer]}." + ".".join(words.get(word, word) for word in rest)
