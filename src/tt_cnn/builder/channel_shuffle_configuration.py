# SPDX-License-Identifier: Apache-2.0
"""The configuration of a channel shuffle: channels of several groups distributed in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.rules import Rule, flags, instance, wholes


@dataclass(frozen=True, eq=False)
class ChannelShuffleConfiguration(Configuration):
    channels: int
    groups: int
    output_dtype: Any = None
    """None: as the input has it."""
    memory_config: Any = None
    """None: where the input is."""
    deallocate_input: bool = False

    rules = (
        *wholes("channels", "groups"),
        Rule("groups", lambda c: c.channels % c.groups == 0, lambda c: f"a divisor of channels ({c.channels})"),
        instance("output_dtype", None, ttnn.DataType),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    @classmethod
    def from_torch(
        cls, torch_layer: torch.nn.ChannelShuffle, channels: int, **settings: Any
    ) -> ChannelShuffleConfiguration:
        return cls(channels, torch_layer.groups, **settings)
