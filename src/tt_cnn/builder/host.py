# SPDX-License-Identifier: Apache-2.0
"""The layer for what the card has no op for: it runs in torch on the host, between two transfers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.naming import named
from tt_cnn.builder.rules import instance
from tt_cnn.builder.weights import replicated


@dataclass(frozen=True, eq=False)
class HostConfiguration(Configuration):
    output_dtype: Any = ttnn.bfloat16
    output_layout: Any = ttnn.TILE_LAYOUT
    memory_config: Any = ttnn.DRAM_MEMORY_CONFIG

    rules = (
        instance("output_dtype", ttnn.DataType),
        instance("output_layout", ttnn.Layout),
        instance("memory_config", ttnn.MemoryConfig),
    )


class TtHost(Layer):
    """Values come to the host as the card has them; `function` makes torch's tensors of them, computes, and gives back
    the values as the card is to have them. A trace cannot hold it."""

    configuration: HostConfiguration
    configured_by = HostConfiguration

    def __init__(
        self, configuration: Any, device: Any, name: str = "", *, function: Callable[..., torch.Tensor]
    ) -> None:
        self.function = function
        super().__init__(configuration, device, name)

    def __call__(self, *inputs: Any) -> Any:
        for tensor in inputs:
            self._check_input(tensor)
        with named(self.name), telling(self.name):
            values = [ttnn.to_torch(tensor).float() for tensor in inputs]
            with torch.no_grad():
                result = self.function(*values)
            config = self.configuration
            return ttnn.from_torch(
                result,
                dtype=config.output_dtype,
                layout=config.output_layout,
                device=self.device,
                memory_config=config.memory_config,
                mesh_mapper=replicated(self.device),
            )
