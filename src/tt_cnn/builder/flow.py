# SPDX-License-Identifier: Apache-2.0
"""A tensor on its way through the ops of a layer, and who gives back what on that way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free

TILE = 32


class Flow:
    """`value` is what the last op made. Whatever an op made is given back when the next has read it; the tensor that
    came from outside only where it may be."""

    def __init__(self, x: Any, may_free: bool = False) -> None:
        self.value = x
        self._owned = may_free

    def then(self, op: Callable[..., Any], *arguments: Any, **keywords: Any) -> Flow:
        """The op of the value; it may also just give the same memory under another shape, or the value itself."""
        return self.become(op(self.value, *arguments, **keywords))

    def become(self, made: Any) -> Flow:
        """`made` takes the place of the value, which all ops have read."""
        if not same_memory(made, self.value):
            if self._owned:
                free(self.value)
            self._owned = True
        self.value = made
        return self

    def in_tiles(self, dtype: Any = None) -> Flow:
        """Shards that no whole tiles fit into are given up for it. None as dtype: as it is."""
        if self.value.layout == ttnn.TILE_LAYOUT:
            cast = dtype is not None and self.value.dtype != dtype
            return self.then(ttnn.typecast, dtype) if cast else self
        if self.value.is_sharded() and any(size % TILE for size in self.value.memory_config().shard_spec.shape):
            self.interleaved()
        return self.then(ttnn.to_layout, ttnn.TILE_LAYOUT, dtype=dtype)

    def in_rows(self) -> Flow:
        return self if self.value.layout == ttnn.ROW_MAJOR_LAYOUT else self.then(ttnn.to_layout, ttnn.ROW_MAJOR_LAYOUT)

    def move_to(self, memory_config: Any) -> Flow:
        """None: where it is."""
        if memory_config is None or self.value.memory_config() == memory_config:
            return self
        return self.then(ttnn.to_memory_config, memory_config)

    def interleaved(self, memory_config: Any = ttnn.L1_MEMORY_CONFIG) -> Flow:
        """Out of its shards, where it is in some."""
        return self.move_to(memory_config) if self.value.is_sharded() else self

    def end(self) -> None:
        """Give the value back, unless its owner is another one."""
        if self._owned:
            free(self.value)


def same_memory(a: Any, b: Any) -> bool:
    """Whether two tensors are one, or views of one."""
    if a is b:
        return True
    if not (a.is_allocated() and b.is_allocated()):
        return False
    kinds = a.memory_config().buffer_type, b.memory_config().buffer_type
    return bool(kinds[0] == kinds[1] and a.buffer_address() == b.buffer_address())


def interleaved_beside(x: Any) -> Any:
    """The memory that a tensor is in, without its shards."""
    in_dram = x.memory_config().buffer_type == ttnn.BufferType.DRAM
    return ttnn.DRAM_MEMORY_CONFIG if in_dram else ttnn.L1_MEMORY_CONFIG
