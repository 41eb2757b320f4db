# SPDX-License-Identifier: Apache-2.0
"""The configuration of a product, with the activation after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activation_configuration import IN_PLACE_RULES, NUMBERS_RULE
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, flags, instance, whole


@dataclass(frozen=True, eq=False)
class MultiplyConfiguration(Configuration):
    """Two tensors of one shape, or pixels and a gate: one value for each channel of each image."""

    batch_size: int = 1
    """Images; a gate has as many rows. With 1, a gate is simply spread over all pixels."""
    activation: Any = None
    """Of the product."""
    output_dtype: Any = None
    """None: as the first factor has it. A product in place always is."""
    in_place: bool = False
    """Whether the product takes the place of the first factor."""
    memory_config: Any = None
    """None: where the first factor is."""
    deallocate_input: bool = False
    """Whether the first factor is given back; one whose place was taken is not."""
    deallocate_other: bool = False
    """Whether the second factor is given back."""

    rules = (
        whole("batch_size"),
        instance("activation", None, ttnn.UnaryWithParam, ttnn.UnaryOpType),
        NUMBERS_RULE,
        instance("output_dtype", None, ttnn.DataType),
        *IN_PLACE_RULES,
        *flags("deallocate_other"),
        Rule("in_place", lambda c: not c.in_place or c.output_dtype is None, "False with an output_dtype"),
    )
