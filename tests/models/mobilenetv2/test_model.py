# SPDX-License-Identifier: Apache-2.0
"""The whole model: its gates and its names."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tt_cnn.models.measurement import Measurement
from tt_cnn.models.mobilenetv2.reference.model import MobileNetV2

SEEDS = [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)]
SIZE = (224, 224)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_tuned_model_reaches_its_gate(seed: int, measured: Callable[..., Measurement]) -> None:
    found = measured("mobilenetv2", seed=seed, precision="tuned", resolution=SIZE, batch_size=1)
    assert found.pcc["logits"] >= 0.94


@pytest.mark.parametrize("seed", SEEDS)
def test_the_bfloat16_model_reaches_0_99(seed: int, measured: Callable[..., Measurement]) -> None:
    found = measured("mobilenetv2", seed=seed, precision="bfloat16", resolution=SIZE, batch_size=1)
    assert found.pcc["logits"] >= 0.99


@pytest.mark.long
@pytest.mark.parametrize("precision", ["tuned", "bfloat16"])
def test_it_reaches_them_on_blackhole(precision: str, measured: Callable[..., Measurement]) -> None:
    assert measured("mobilenetv2", card="p150", precision=precision).passed


def test_parameters_have_torchvisions_names_and_shapes() -> None:
    shapes = {name: tuple(value.shape) for name, value in MobileNetV2().state_dict().items()}
    assert len(shapes) == 314
    assert shapes["features.0.0.weight"] == (32, 3, 3, 3)
    assert shapes["features.0.1.running_mean"] == (32,)
    assert shapes["features.1.conv.0.0.weight"] == (32, 1, 3, 3)
    assert shapes["features.1.conv.1.weight"] == (16, 32, 1, 1)
    assert shapes["features.1.conv.2.bias"] == (16,)
    assert shapes["features.2.conv.0.0.weight"] == (96, 16, 1, 1)
    assert shapes["features.2.conv.1.0.weight"] == (96, 1, 3, 3)
    assert shapes["features.17.conv.2.weight"] == (320, 960, 1, 1)
    assert shapes["features.17.conv.3.num_batches_tracked"] == ()
    assert shapes["features.18.0.weight"] == (1280, 320, 1, 1)
    assert shapes["classifier.1.weight"] == (1000, 1280)


def test_it_has_as_many_parameters_as_the_paper_says() -> None:
    assert sum(p.numel() for p in MobileNetV2().parameters()) == 3_504_872
