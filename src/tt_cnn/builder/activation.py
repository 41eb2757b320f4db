# SPDX-License-Identifier: Apache-2.0
"""The layer of an activation that is an op of its own."""

from __future__ import annotations

from typing import Any

from tt_cnn.builder.activation_configuration import ActivationConfiguration
from tt_cnn.builder.activations import activated
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer


class TtActivation(Layer):
    """Any tensor on the device; shape, dtype and layout stay as they are."""

    configuration: ActivationConfiguration
    configured_by = ActivationConfiguration

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        config = self.configuration
        if config.in_place:
            return activated(x, config.activation)
        placed = {"memory_config": config.memory_config or x.memory_config()}
        return Flow(x, config.deallocate_input).then(activated, config.activation, **placed).value
