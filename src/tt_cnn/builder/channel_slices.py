# SPDX-License-Identifier: Apache-2.0
"""Running an op on a few channels at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.slicing import channel_slices


class ChannelSlicedLayer(Layer):
    """A layer that can run on a few channels at a time; upstream's names for how many."""

    @property
    def num_slices(self) -> int:
        return channel_slices(self.configuration.slice_strategy)

    @property
    def use_channel_slicing(self) -> bool:
        return self.num_slices > 1

    @property
    def channels_per_slice(self) -> int:
        return int(self.configuration.channels) // self.num_slices


def slices_of_channels(x: Any, channels: int, num_slices: int) -> Iterator[Any]:
    """Equal parts of the last dimension, each made when it is asked for and freed after its use."""
    each = channels // num_slices
    *leading, _ = tuple(x.shape)
    for start in range(0, channels, each):
        part = ttnn.slice(x, [0] * len(leading) + [start], [*leading, start + each])
        yield part
        free(part)


def concatenated_over_slices(x: Any, channels: int, num_slices: int, run: Callable[[Any], Any]) -> Any:
    """The op on each part of the channels, one after the other, its results gathered in DRAM and joined."""
    parts = [to_dram(run(part)) for part in slices_of_channels(x, channels, num_slices)]
    joined = ttnn.concat(parts, dim=3)
    for part in parts:
        free(part)
    return joined


def to_dram(x: Any) -> Any:
    """x in DRAM, interleaved; what it held elsewhere is freed."""
    if x.memory_config() == ttnn.DRAM_MEMORY_CONFIG:
        return x
    moved = ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG)
    free(x)
    return moved


def free(x: Any) -> None:
    """Give the memory back, unless an op that was asked to has done so."""
    if x.is_allocated():
        ttnn.deallocate(x)
