# SPDX-License-Identifier: Apache-2.0
"""The fully connected layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated, activation_of_name, fits_into_matmul
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.lowering import to_compute_config


class TtLinear(Layer):
    """`weight` and `bias` are the configuration's until the first call; from then on they are tiles on the device."""

    configuration: LinearConfiguration
    configured_by = LinearConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.compute_config = to_compute_config(configuration, self.device)
        self.weight = configuration.weight
        self.bias = configuration.bias

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        """(..., in_features) to (..., out_features): there is no image, so no output size."""
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        self.weight = self._on_device(self.weight)
        self.bias = None if self.bias is None else self._on_device(self.bias)
        given = Flow(x)
        if x.layout != ttnn.TILE_LAYOUT:
            given.then(ttnn.to_layout, ttnn.TILE_LAYOUT)
        given.move_to(config.input_memory_config)
        after = self.activation_after(given.value)
        output = ttnn.linear(
            given.value,
            self.weight,
            bias=self.bias,
            memory_config=config.memory_config,
            dtype=config.output_dtype,
            activation=None if after is not None else config.activation,
            compute_kernel_config=self.compute_config,
            core_grid=config.core_grid,
        )
        given.end()
        return output if after is None else activated(output, after)

    def activation_after(self, x: Any) -> Any:
        """The activation that runs as an op of its own after the product of this input; None where none does.

        TT-NN puts it there itself, but for products on a grid that was given, and refuses one for shards.
        """
        activation = self.configuration.activation
        if activation is None:
            return None
        given = activation_of_name(activation) if isinstance(activation, str) else activation
        on_grid = self.configuration.core_grid is not None and not fits_into_matmul(given)
        return given if on_grid or x.is_sharded() else None

    def _on_device(self, tensor: Any) -> Any:
        """In the layer's dtype and in tiles; a tensor that is on the device already is taken as prepared."""
        if ttnn.is_tensor_storage_on_device(tensor):
            return tensor
        tiles = ttnn.to_layout(tensor, ttnn.TILE_LAYOUT)
        return ttnn.to_device(ttnn.to_dtype(tiles, self.configuration.weights_dtype), self.device)
