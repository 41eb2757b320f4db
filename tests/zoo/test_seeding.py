# SPDX-License-Identifier: Apache-2.0
"""Seeded weights: norms that mean something, layers without norms that do not vanish, errors that do not grow."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from tests.zoo.test_registry import pcc, tensors
from tt_cnn.models.initialization import natural_images
from tt_cnn.zoo import architecture, create_architecture, list_architectures
from tt_cnn.zoo.seeding import seed_weights


def test_batch_norms_hold_what_pictures_gave() -> None:
    model = create_architecture("resnet18")
    assert isinstance(model.get_submodule("layer1.0.bn1"), nn.BatchNorm2d)
    inputs: list[torch.Tensor] = []
    model.get_submodule("layer1.0.bn1").register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    with torch.inference_mode():
        model(architecture("resnet18").example_input(batch_size=4, seed=1))
    norm: Any = model.get_submodule("layer1.0.bn1")
    torch.testing.assert_close(norm.running_mean, inputs[0].mean(dim=(0, 2, 3)), atol=1e-3, rtol=1e-3)
    assert norm.momentum == 0.1 and not norm.training


def test_a_net_without_norms_does_not_vanish() -> None:
    layers = [layer for _ in range(40) for layer in (nn.Conv2d(3, 3, 3, padding=1), nn.ReLU())]
    model = nn.Sequential(*layers, nn.Conv2d(3, 8, 1))
    pictures = natural_images(4, (32, 32), 0)
    seed_weights(model, pictures, 0)
    with torch.inference_mode():
        assert model(pictures).var(dim=(0, 2, 3)).mean() == pytest.approx(1.0, rel=0.01)


def test_ends_of_residual_branches_are_weak() -> None:
    block: Any = create_architecture("resnet50").get_submodule("layer1.1")
    assert block.bn3.weight.detach().mean() == pytest.approx(0.3, rel=0.2)
    gamma: Any = create_architecture("convnext_tiny").get_parameter("stages.0.0.gamma").detach()
    assert 0.1 < float(gamma.min()) < float(gamma.max()) < 0.5


def test_a_pattern_that_fits_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"residuals has '\*.bn9'"):
        seed_weights(nn.Sequential(nn.Conv2d(3, 3, 1)), torch.zeros(1, 3, 8, 8), 0, ["*.bn9"])


SOME = ("resnet50", "mobilenet_v3_large", "efficientnet_b0", "yolov5s", "swin_tiny")


@pytest.mark.parametrize(
    "name", [name if name in SOME else pytest.param(name, marks=pytest.mark.long) for name in list_architectures()]
)
def test_rounding_to_bfloat16_does_not_grow(name: str) -> None:
    """Weights and what every module gives, rounded: a card can reach 0.99 with such weights."""

    def rounded(x: Any) -> Any:
        return x.bfloat16().float() if isinstance(x, torch.Tensor) else x

    model, picture = create_architecture(name), architecture(name).example_input(seed=5)
    with torch.inference_mode():
        expected = tensors(model(picture))
        for parameter in model.parameters():
            parameter.copy_(rounded(parameter))
        for module in model.modules():
            if not list(module.children()):
                module.register_forward_hook(lambda _, args, output: rounded(output))
        got = tensors(model(rounded(picture)))
    assert min(pcc(a, b) for a, b in zip(expected, got, strict=True)) > 0.99
