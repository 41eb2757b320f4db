# SPDX-License-Identifier: Apache-2.0
"""Every distinct convolution and pool of the model with its configuration, against torch; the full width is `long`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest

from tests.models.yolov4.modules import FULL, QUARTER
from tt_cnn.builder import Conv2dConfiguration, MaxPool2dConfiguration
from tt_cnn.testing import verify_conv2d_from_config, verify_maxpool2d_from_config

GATES = {Conv2dConfiguration: 0.99, MaxPool2dConfiguration: 0.999}
CHECKS = {Conv2dConfiguration: verify_conv2d_from_config, MaxPool2dConfiguration: verify_maxpool2d_from_config}
MODULES = ("down1", "down2", "down3", "down4", "down5", "neck", "head")


def configurations(module: Any) -> Iterator[Any]:
    """Of all layers in a module, wherever they are."""
    for value in vars(module).values() if hasattr(module, "__dict__") else ():
        for each in _flattened(value):
            if type(getattr(each, "configuration", None)) in CHECKS:
                yield each.configuration
            elif type(each).__module__ == type(module).__module__:
                yield from configurations(each)


def _flattened(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for each in value:
            yield from _flattened(each)
    else:
        yield value


def _shape_and_settings(configuration: Any) -> str:
    """What tells ops apart: all but the weights."""
    names = [each.name for each in fields(configuration) if each.name not in ("weight", "bias")]
    return str([(name, str(getattr(configuration, name))) for name in names])


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize("width", [QUARTER, pytest.param(FULL, marks=pytest.mark.long)])
def test_ops(width: float, module: str, model_on: Callable[..., Any]) -> None:
    model = model_on(width)
    distinct = {_shape_and_settings(each): each for each in configurations(getattr(model, module))}
    assert distinct
    for configuration in distinct.values():
        CHECKS[type(configuration)](configuration, model.device, GATES[type(configuration)])


def test_all_layers_are_reached(model_on: Callable[..., Any]) -> None:
    model = model_on(QUARTER)
    found = [each for module in MODULES for each in configurations(getattr(model, module))]
    assert sum(isinstance(each, Conv2dConfiguration) for each in found) == 110
    assert sum(isinstance(each, MaxPool2dConfiguration) for each in found) == 3
