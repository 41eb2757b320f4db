# SPDX-License-Identifier: Apache-2.0
"""The configuration of a sum, with the activation after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import flags, instance


@dataclass(frozen=True, eq=False)
class AddConfiguration(Configuration):
    """The end of a residual block."""

    activation: Any = None
    """What the block computes of the sum."""
    fuse_activation: bool = True
    """Whether the activation is part of the sum's op, or an op of its own after it."""
    in_place: bool = True
    """Whether the sum takes the place of a summand."""
    output_dtype: Any = None
    """None: as the summand has it. A sum in place always is."""
    memory_config: Any = None
    """None: as the summand has it. A sum in place always is."""

    rules = (
        instance("activation", None, ttnn.UnaryWithParam, ttnn.UnaryOpType),
        NUMBERS_RULE,
        *flags("fuse_activation", "in_place"),
        instance("output_dtype", None, ttnn.DataType),
        instance("memory_config", None, ttnn.MemoryConfig),
    )
