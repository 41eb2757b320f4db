# SPDX-License-Identifier: Apache-2.0
"""The layer of a ReLU with a learned slope."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated
from tt_cnn.builder.constants import tiles_on_device
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.prelu_configuration import PReLUConfiguration
from tt_cnn.builder.weights import to_one_torch

_NEGATIVE_PART = (ttnn.UnaryWithParam(ttnn.UnaryOpType.NEG), ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU))
_POSITIVE_PART = (ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU),)


class TtPReLU(Layer):
    """One slope for all channels is a leaky ReLU. One for each is relu(x) - slope * relu(-x): two ops, since
    `ttnn.prelu` takes the channels in the second dimension, where flattened pixels do not have them."""

    configuration: PReLUConfiguration
    configured_by = PReLUConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.weight = configuration.weight
        self._slope = (
            ttnn.UnaryWithParam(ttnn.UnaryOpType.LEAKY_RELU, float(to_one_torch(self.weight)))
            if configuration.num_parameters == 1
            else None
        )

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._slope is not None:
            place = {"output_tensor": x} if config.in_place else {"memory_config": self._where(x)}
            return Flow(x, config.deallocate_input).then(activated, self._slope, **place).value
        self.weight = tiles_on_device(self.weight, self.device)
        flow = Flow(x, config.deallocate_input and not config.in_place).in_tiles()
        value = flow.value
        down = ttnn.multiply(
            value,
            self.weight,
            input_tensor_a_activations=list(_NEGATIVE_PART),
            memory_config=self._where(value),
            dtype=value.dtype,
        )
        place = value if config.in_place else down
        ttnn.subtract(value, down, input_tensor_a_activations=list(_POSITIVE_PART), output_tensor=place)
        if config.in_place:
            ttnn.deallocate(down)
            return value
        return flow.become(down).value

    def _where(self, x: Any) -> Any:
        return self.configuration.memory_config or x.memory_config()
