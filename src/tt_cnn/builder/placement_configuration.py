# SPDX-License-Identifier: Apache-2.0
"""The configuration of a place in a model where a tensor is put into a memory of one's choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import flags, instance


@dataclass(frozen=True, eq=False)
class PlacementConfiguration(Configuration):
    """Where a skip connection waits, or how a stage of a network is spread over the cores."""

    memory_config: Any = None
    """None: where it comes from."""
    reallocate: bool = False
    """Whether the tensor is moved up to close holes in L1."""

    rules = (instance("memory_config", None, ttnn.MemoryConfig), *flags("reallocate"))
