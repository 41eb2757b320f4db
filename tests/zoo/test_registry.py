# SPDX-License-Identifier: Apache-2.0
"""Every architecture of the zoo: as published, alive, the same for the same seed, and exportable."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from tt_cnn.zoo import architecture, create_architecture, list_architectures, register_architecture

NAMES = list_architectures()
LARGE = {
    *(
        "deeplabv3_resnet50",
        "deeplabv3plus_resnet50",
        "densenet169",
        "densenet201",
        "efficientnet_b2",
        "efficientnet_b3",
        "efficientnet_b4",
    ),
    *("fcos_resnet50_fpn", "panoptic_deeplab"),
    *("pspnet_resnet50", "resnet101", "resnet152", "resnext101_32x8d", "retinanet_resnet50_fpn"),
    *("srresnet_x4", "ssd300_vgg16", "swin_small", "unet", "vgg16_bn", "vgg19_bn", "vit_b_16", "wide_resnet50_2"),
    *("yolov3", "yolov5x", "yolov9c", "yolov9s"),
}
EACH = [pytest.param(name, marks=pytest.mark.long) if name in LARGE else name for name in NAMES]
OF_EACH_KIND = [
    "mobilenet_v3_small",
    "squeezenet1_1",
    "deit_tiny",
    "mobilevit_s",
    "fsrcnn_x3",
    "yunet",
    "efficientformer_l1",
]
"""Batch norms, none, layer norms and embeddings, both, slopes, many outputs, tables and layer scales."""


@cache
def without_weights(name: str) -> nn.Module:
    with torch.device("meta"):
        return architecture(name).factory().eval()


def picture_without_values(name: str) -> torch.Tensor:
    return torch.empty(1, *architecture(name).input_shape, device="meta")


def tensors(outputs: Any) -> tuple[torch.Tensor, ...]:
    return (outputs,) if isinstance(outputs, torch.Tensor) else tuple(outputs)


def pcc(a: torch.Tensor, b: torch.Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a.flatten(), b.flatten()]).double())[0, 1])


@pytest.mark.parametrize("name", NAMES)
def test_parameters_and_multiply_adds_are_the_published_ones(name: str) -> None:
    entry, model = architecture(name), without_weights(name)
    if entry.parameters is not None:
        assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(entry.parameters, rel=0.02)
    if entry.gmacs is not None:
        with FlopCounterMode(display=False) as counter:
            model(picture_without_values(name))
        assert counter.get_total_flops() / 2e9 == pytest.approx(entry.gmacs, rel=0.05)


@pytest.mark.parametrize("name", EACH)
def test_seeded_weights_are_alive(name: str) -> None:
    """Outputs have sizes that one can compute with, and tell pictures apart (boxes lie where their positions are)."""
    entry, model = architecture(name), create_architecture(name)
    assert not model.training
    with torch.inference_mode():
        one, other = (tensors(model(entry.example_input(seed=seed))) for seed in (5, 6))
    assert len(one) == len(entry.outputs)
    for output, a, b in zip(entry.outputs, one, other, strict=True):
        assert a.isfinite().all()
        assert 1e-3 < float(a.std()) < 1e3
        assert pcc(a, b) < (0.999 if output == "boxes" else 0.98)


@pytest.mark.parametrize("name", EACH)
def test_it_can_be_exported(name: str) -> None:
    program = torch.export.export(without_weights(name), (picture_without_values(name),))
    assert len(program.graph_signature.user_outputs) == len(architecture(name).outputs)


@pytest.mark.parametrize("name", OF_EACH_KIND)
def test_the_seed_decides_the_weights(name: str) -> None:
    one, again, other = (create_architecture(name, seed).state_dict() for seed in (3, 3, 4))
    torch.rand(1)  # what others draw does not matter
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


def test_architectures_are_found_by_task_and_family() -> None:
    assert "resnet50" in list_architectures("classification", "resnet")
    assert list_architectures(family="unet") == ["unet", "unet_bilinear"]
    assert not list_architectures("depth", "resnet")
    assert architecture("resnet50").family == "resnet"


def test_a_name_is_taken_once() -> None:
    def resnet50() -> nn.Module:
        return nn.Identity()

    with pytest.raises(ValueError, match="there is an architecture 'resnet50' already"):
        register_architecture("another", "nobody")(resnet50)


def test_an_unknown_name_is_answered_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match=r"no architecture 'resnet'; there are .*resnet18"):
        architecture("resnet")
