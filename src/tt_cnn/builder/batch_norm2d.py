# SPDX-License-Identifier: Apache-2.0
"""The layer of a batch norm on its own: a scale and a shift for each channel."""

from __future__ import annotations

from typing import Any

from tt_cnn.builder.affine import affine
from tt_cnn.builder.batch_norm2d_configuration import BatchNorm2dConfiguration
from tt_cnn.builder.constants import tiles_on_device
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer


class TtBatchNorm2d(Layer):
    """(..., channels) to the same shape; `weight` and `bias` are tiles on the device from the first call on."""

    configuration: BatchNorm2dConfiguration
    configured_by = BatchNorm2dConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.weight = configuration.weight
        self.bias = configuration.bias

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        self.weight = tiles_on_device(self.weight, self.device)
        self.bias = tiles_on_device(self.bias, self.device)
        flow = Flow(x, config.deallocate_input and not config.in_place).in_tiles()
        made = affine(
            flow.value,
            self.weight,
            self.bias,
            activation=config.activation,
            output=flow.value if config.in_place else None,
            memory_config=config.memory_config,
            dtype=config.output_dtype,
        )
        return flow.become(made).value
