# SPDX-License-Identifier: Apache-2.0
"""The layer that moves a tensor from one memory to another."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.placement_configuration import PlacementConfiguration


class TtPlacement(Layer):
    """The input where it lies as the configuration asks; else a copy that does, and the input is given back.

    `keep_input` leaves the input with its owner, who must look whether he got the same tensor back.
    """

    configuration: PlacementConfiguration
    configured_by = PlacementConfiguration

    def __call__(self, x: Any, keep_input: bool = False) -> Any:
        moved = super().__call__(x)
        if moved is not x and not keep_input and x.is_allocated():
            ttnn.deallocate(x)
        return ttnn.reallocate(moved) if self.configuration.reallocate and not (keep_input and moved is x) else moved

    def run(self, x: Any) -> Any:
        wanted = self.configuration.memory_config
        return x if wanted is None or x.memory_config() == wanted else ttnn.to_memory_config(x, wanted)
