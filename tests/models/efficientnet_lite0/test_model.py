# SPDX-License-Identifier: Apache-2.0
"""The whole model: its gates, and what is special about the reference."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tt_cnn.models.efficientnet_lite0.reference.model import ConvNorm, EfficientNetLite0
from tt_cnn.models.measurement import Measurement

SEEDS = [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)]
SIZE = (224, 224)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tuned_model_reaches_its_gate(seed: int, measured: Callable[..., Measurement]) -> None:
    found = measured("efficientnet_lite0", seed=seed, precision="tuned", resolution=SIZE, batch_size=1)
    assert found.pcc["logits"] >= 0.98


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_bfloat16_model_reaches_0_99(seed: int, measured: Callable[..., Measurement]) -> None:
    found = measured("efficientnet_lite0", seed=seed, precision="bfloat16", resolution=SIZE, batch_size=1)
    assert found.pcc["logits"] >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("precision", ["tuned", "bfloat16"])
def test_it_reaches_them_on_blackhole(precision: str, measured: Callable[..., Measurement]) -> None:
    assert measured("efficientnet_lite0", card="p150", precision=precision).passed


def test_it_has_as_many_parameters_as_its_makers_say() -> None:
    assert sum(p.numel() for p in EfficientNetLite0().parameters()) == 4_652_008


@pytest.mark.parametrize(("kernel", "top_left", "bottom_right"), [(3, 0, 1), (5, 1, 2)])
def test_strides_pad_as_tensorflow_does(kernel: int, top_left: int, bottom_right: int) -> None:
    """An even size needs an odd number of pixels; the larger part comes last."""
    layer = ConvNorm(1, 1, kernel, stride=2)
    assert layer.pad.padding == (top_left, bottom_right) * 2
    assert layer(torch.zeros(1, 1, 8, 8)).shape == (1, 1, 4, 4)
