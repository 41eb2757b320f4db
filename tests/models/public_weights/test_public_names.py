# SPDX-License-Identifier: Apache-2.0
"""Checkpoints with public names fit the references: each name here is written as its maker's model has it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from tt_cnn.models.vanilla_unet.reference import public_names as unet_names
from tt_cnn.models.vanilla_unet.reference.model import UNet
from tt_cnn.models.yolov4.reference import public_names as yolov4_names
from tt_cnn.models.yolov4.reference.model import YOLOv4
from tt_cnn.preprocessing.weights import load_into

NORM = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")


def public_unet() -> list[tuple[str, str]]:
    """(public name, name in the reference) of the brain-MRI UNet."""
    pairs = []
    blocks = [("bottleneck", "bottleneck")]
    blocks += [(f"{long}{level}", f"{long[:3]}{level}") for long in ("encoder", "decoder") for level in range(1, 5)]
    for block, short in blocks:
        for number, (conv, norm) in enumerate(((0, 1), (3, 4)), start=1):
            pairs.append((f"{block}.{short}conv{number}.weight", f"{block}.{conv}.weight"))
            pairs += [(f"{block}.{short}norm{number}.{part}", f"{block}.{norm}.{part}") for part in NORM]
    for layer in ("conv", *(f"upconv{level}" for level in range(1, 5))):
        pairs += [(f"{layer}.{part}",) * 2 for part in ("weight", "bias")]
    return pairs


def public_yolov4() -> list[tuple[str, str]]:
    """(public name, name in the reference) of the PyTorch YOLOv4."""
    layers = [(f"down1.conv{number}",) * 2 for number in range(1, 9)]
    for stage, blocks in ((2, 2), (3, 8), (4, 8), (5, 4)):
        layers += [(f"down{stage}.conv{number}",) * 2 for number in range(1, 6)]
        layers += [
            (f"down{stage}.resblock.module_list.{block}.{half}", f"down{stage}.resblock.blocks.{block}.{half}")
            for block in range(blocks)
            for half in range(2)
        ]
    layers += [(f"neek.conv{number}", f"neck.conv{number}") for number in range(1, 21)]
    layers += [(f"head.conv{number}",) * 2 for number in range(1, 19)]
    pairs = []
    for public, own in layers:
        if public in ("head.conv2", "head.conv10", "head.conv18"):
            pairs += [(f"{public}.conv.0.{part}", f"{own}.{part}") for part in ("weight", "bias")]
        else:
            pairs.append((f"{public}.conv.0.weight", f"{own}.conv.weight"))
            pairs += [(f"{public}.conv.1.{part}", f"{own}.norm.{part}") for part in NORM]
    return pairs


@pytest.mark.parametrize(
    ("model", "pairs", "rename"),
    [
        (UNet(features=2), public_unet(), unet_names.from_public),
        (YOLOv4(classes=3, width=1 / 16), public_yolov4(), yolov4_names.from_public),
    ],
    ids=["unet", "yolov4"],
)
def test_every_public_name_finds_its_place(model: nn.Module, pairs: list[tuple[str, str]], rename, tmp_path: Path):
    own = model.state_dict()
    assert {name for _, name in pairs} == own.keys()
    torch.manual_seed(0)
    public = {name: torch.rand(own[mine].shape).to(own[mine].dtype) for name, mine in pairs}
    torch.save(public, tmp_path / "public.pth")
    load_into(model, tmp_path / "public.pth", rename)
    for name, mine in pairs:
        assert torch.equal(model.state_dict()[mine], public[name]), name
