# SPDX-License-Identifier: Apache-2.0
"""Every op of the model with its configuration, against torch. The ones on large pictures are `long`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tt_cnn.builder import Conv2dConfiguration, ConvTranspose2dConfiguration, MaxPool2dConfiguration
from tt_cnn.models.vanilla_unet.tt.config import WORMHOLE
from tt_cnn.testing import (
    verify_conv2d_from_config,
    verify_conv_transpose2d_from_config,
    verify_maxpool2d_from_config,
)

CHECKS: dict[type, tuple[Callable[..., float], float]] = {
    Conv2dConfiguration: (verify_conv2d_from_config, 0.99),
    ConvTranspose2dConfiguration: (verify_conv_transpose2d_from_config, 0.99),
    MaxPool2dConfiguration: (verify_maxpool2d_from_config, 0.9999),
}
LARGE = ("encoder1", "encoder2", "decoder1", "decoder2", "upconv1", "pool1", "pool2", "conv")
NAMES = [*WORMHOLE, *(f"pool{level}" for level in range(1, 5))]


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.long) if n.split(".")[0] in LARGE else n for n in NAMES]
)
def test_op(name: str, layers: Mapping[str, Any], device: Any) -> None:
    configuration = layers[name]
    verify, threshold = CHECKS[type(configuration)]
    assert verify(configuration, device, threshold) >= threshold


def test_all_layers_have_a_configuration(layers: Mapping[str, Any]) -> None:
    checked = {name for name, configuration in layers.items() if type(configuration) in CHECKS}
    assert checked == set(NAMES)
