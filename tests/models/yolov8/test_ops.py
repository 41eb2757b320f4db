# SPDX-License-Identifier: Apache-2.0
"""Every op of the models with its configuration, against torch. Large maps, and the scale x, are `long`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import conv2d, silu

from tests.models.yolov8.conftest import Images
from tt_cnn import ttnn
from tt_cnn.builder import Conv2dConfiguration, MaxPool2dConfiguration, UpsampleConfiguration
from tt_cnn.models import model_entry
from tt_cnn.models.yolov8.tt.common import preprocess
from tt_cnn.models.yolov8.tt.config import WORMHOLE, configurations, row_of
from tt_cnn.models.yolov8.tt.model import Layers, TtMovingConv
from tt_cnn.testing import (
    assert_with_pcc,
    verify_conv2d_from_config,
    verify_maxpool2d_from_config,
    verify_upsample_from_config,
)

CHECKS: dict[type, tuple[Callable[..., float], float]] = {
    Conv2dConfiguration: (verify_conv2d_from_config, 0.99),
    MaxPool2dConfiguration: (verify_maxpool2d_from_config, 0.999),
    UpsampleConfiguration: (verify_upsample_from_config, 0.9999),
}
OTHERS = ("backbone.sppf.pool", "neck.upsample1", "neck.upsample2")
LARGE = 40


@pytest.fixture(scope="module")
def of_scale() -> Callable[[str], dict[str, Any]]:
    """Configurations by row of the table, for a scale."""
    made: dict[str, dict[str, Any]] = {}

    def get(scale: str) -> dict[str, Any]:
        if scale not in made:
            reference = model_entry(f"yolov8{scale}").reference().eval()
            found = configurations(preprocess(reference), WORMHOLE[scale], "tuned")
            made[scale] = {row_of(name): each for name, each in found.items()}
        return made[scale]

    return get


def _cases() -> list[Any]:
    cases = []
    for scale, table in WORMHOLE.items():
        for name in (*table, *OTHERS):
            large = scale == "x" or (name in table and table[name].size > LARGE)
            cases.append(pytest.param(scale, name, marks=pytest.mark.long if large else (), id=f"{scale}-{name}"))
    return cases


def _given_a_grid(configuration: Any) -> bool:
    return getattr(getattr(configuration, "sharding_strategy", None), "override_core_grid", None) is not None


@pytest.mark.parametrize(("scale", "name"), _cases())
def test_op(scale: str, name: str, of_scale: Callable[[str], dict[str, Any]], device: Any) -> None:
    configuration = of_scale(scale)[name]
    verify, threshold = CHECKS[type(configuration)]
    if _given_a_grid(configuration):
        verify = _verify_on_its_grid
    assert verify(configuration, device, threshold) >= threshold


def _verify_on_its_grid(configuration: Any, device: Any, threshold: float) -> float:
    """`verify_conv2d_from_config`, the input moved to the grid that is given: TT-NN does not do it."""
    size, channels = configuration.input_height, configuration.in_channels
    image = torch.randn(1, channels, size, size)
    layers = Layers({"conv": configuration}, device)
    output = TtMovingConv(layers, "conv")(Images(device).in_rows(image))
    weight, bias = (ttnn.to_torch(each).float() for each in (configuration.weight, configuration.bias))
    expected = silu(conv2d(image, weight, bias.reshape(-1), stride=configuration.stride, padding=1))
    return assert_with_pcc(expected, Images.to_torch(output, expected), threshold)[1]


@pytest.mark.parametrize("scale", WORMHOLE)
def test_all_layers_have_a_configuration(scale: str, of_scale: Callable[[str], dict[str, Any]]) -> None:
    assert set(of_scale(scale)) == {*WORMHOLE[scale], *OTHERS}
