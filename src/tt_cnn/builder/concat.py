# SPDX-License-Identifier: Apache-2.0
"""The layer that joins branches along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.concat_configuration import ConcatConfiguration
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.naming import named

TILE = 32
WORD = 16
"""Bytes."""
_WORD = 16
"""Channels in bfloat16."""
_INTERLEAVED = {"l1": ttnn.L1_MEMORY_CONFIG, "dram": ttnn.DRAM_MEMORY_CONFIG}


class TtConcat(Layer):
    """Maps (1, 1, N*H*W, C) side by side in one; the parts are given back, but for those that are kept.

    What has to be done to the parts first follows from what they are when they come: where they lie, in which layout
    and dtype.
    """

    configuration: ConcatConfiguration
    configured_by = ConcatConfiguration

    def __call__(self, parts: Sequence[Any], beside: int = 0, dim: int = 3, kept: Sequence[Any] = ()) -> Any:
        """`beside` is the part on whose cores they are joined in shards; along another `dim` they cannot be.

        `kept` are those of the parts that are read later.
        """
        for part in parts:
            self._check_input(part)
        given = list(parts)
        with named(self.name), telling(self.name):
            return self._joined(
                [Flow(part, not _read_again(i, given, kept)) for i, part in enumerate(given)], beside, dim
            )

    def _joined(self, parts: list[Flow], beside: int, dim: int) -> Any:
        config = self.configuration
        given = [part.value for part in parts]
        anchor = next((part for part in (given[beside], *given) if part.is_sharded()), given[beside])
        where = _INTERLEAVED.get(config.place) or anchor.memory_config()
        if where.shard_spec is not None and dim != 3:
            raise ValueError(f"place is {config.place!r}; it must be 'l1' or 'dram' along dimension {dim}.")
        if where.shard_spec is not None and not _fit_beside(anchor, [part.shape[-1] for part in given]):
            where = ttnn.L1_MEMORY_CONFIG
        dtype = config.output_dtype or _common_dtype(given)
        for part in parts:
            _move(part, where, anchor.shape[-1])
        moved = [part.value for part in parts]
        in_tiles = config.layout == ttnn.TILE_LAYOUT if config.layout is not None else _fit_as_tiles(moved, dtype)
        for part in parts:
            if in_tiles:
                _to_tiles(part, dtype)
            else:
                part.in_rows()
        ready = [part.value for part in parts]
        wanted = where if where.shard_spec is None else _config_of_all(ready, in_tiles)
        unit = TILE if in_tiles else WORD // ready[0].element_size()
        if dim == (2 if in_tiles else 3) and _only_last_is_cut(ready, dim, unit):
            together = _joined_and_cut(ready, dim, unit, wanted)
        else:
            together = ttnn.concat(ready, dim=dim, memory_config=wanted)
        for part in parts:
            part.end()
        joined = Flow(together, may_free=True)
        if config.output_layout is not None and together.layout != config.output_layout:
            if config.output_layout == ttnn.TILE_LAYOUT:
                joined.in_tiles(dtype)
            else:
                joined.in_rows()
        return ttnn.reallocate(joined.value) if config.reallocate and not _in_dram(joined.value) else joined.value


def _read_again(i: int, parts: list[Any], kept: Sequence[Any]) -> bool:
    """Whether a part is kept, or comes once more."""
    return any(parts[i] is one for one in (*kept, *parts[i + 1 :]))


def _fit_beside(anchor: Any, widths: list[int]) -> bool:
    """Whether TT-NN joins parts of these widths in the shards of one of them.

    Rows in height shards must be whole words of 32 bytes; block shards are divided as the channels are, into tiles.
    """
    config = anchor.memory_config()
    if config.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED:
        return all(width % _WORD == 0 for width in widths)
    if config.memory_layout != ttnn.TensorMemoryLayout.BLOCK_SHARDED:
        return False
    shard, channels = config.shard_spec.shape[1], anchor.shape[-1]
    return all(width % TILE == 0 and width * shard % (channels * TILE) == 0 for width in widths)


def resized(config: Any, width: int) -> Any:
    """The same shards with another width."""
    shard = config.shard_spec
    spec = ttnn.ShardSpec(shard.grid, [shard.shape[0], width], shard.orientation)
    return ttnn.MemoryConfig(config.memory_layout, config.buffer_type, spec)


def on_cores_of(x: Any, config: Any, channels: int) -> Any:
    """The memory config of x on the cores of a tensor that has as many rows and so many channels."""
    if config.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED:
        width = x.shape[-1]
        return resized(config, -(-width // TILE) * TILE if x.layout == ttnn.TILE_LAYOUT else width)
    return resized(config, config.shard_spec.shape[1] * x.shape[-1] // channels)


def _move(part: Flow, where: Any, channels: int) -> None:
    """`where` is a memory to interleave them in, or that of one of them, which has so many channels.

    What is interleaved already may lie in another memory than the result.
    """
    if where.shard_spec is None:
        if part.value.is_sharded():
            part.then(ttnn.sharded_to_interleaved, where)
    elif part.value.memory_config() != where:
        if where.shard_spec.shape[0] % TILE:
            part.in_rows()  # no tiles go into such shards
        part.move_to(on_cores_of(part.value, where, channels))


def _common_dtype(parts: list[Any]) -> Any:
    first = parts[0].dtype
    return first if all(part.dtype == first for part in parts) else ttnn.bfloat16


def _fit_as_tiles(parts: list[Any], dtype: Any) -> bool:
    if any(part.layout != ttnn.TILE_LAYOUT for part in parts):
        return False
    return not parts[0].is_sharded() or all(part.dtype == dtype and part.shape[-1] % TILE == 0 for part in parts)


def _to_tiles(part: Flow, dtype: Any) -> None:
    if part.value.layout != ttnn.TILE_LAYOUT:
        part.then(ttnn.to_layout, ttnn.TILE_LAYOUT, dtype=dtype)
    elif part.value.dtype != dtype:
        part.then(ttnn.typecast, dtype)


def _config_of_all(parts: list[Any], in_tiles: bool) -> Any:
    """The shards of the first, wide enough for all."""
    config = parts[0].memory_config()
    height = config.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    own = height and not in_tiles
    return resized(config, sum(part.shape[-1] if own else part.memory_config().shard_spec.shape[1] for part in parts))


def _only_last_is_cut(parts: list[Any], dim: int, unit: int) -> bool:
    """Whether all parts but the last fill tiles, or words of rows: TT-NN moves all values where any part does not."""
    *before, last = (part.shape[dim] % unit for part in parts)
    several = len(parts) > 1 and len(parts[0].shape) == 4 and not parts[0].is_sharded()
    return several and not any(before) and last != 0


def _joined_and_cut(parts: list[Any], dim: int, unit: int, memory_config: Any) -> Any:
    """With zeros behind the last part, which are cut off again."""
    *before, last = parts
    border = [(0, 0)] * 4
    border[dim] = (0, -last.shape[dim] % unit)
    filled = ttnn.pad(last, border, 0.0)
    flow = Flow(ttnn.concat([*before, filled], dim=dim, memory_config=memory_config), may_free=True)
    ttnn.deallocate(filled)
    sizes = list(last.shape)
    sizes[dim] = sum(part.shape[dim] for part in parts)
    return flow.then(ttnn.slice, [0, 0, 0, 0], sizes, memory_config=memory_config).value


def _in_dram(x: Any) -> bool:
    return bool(x.memory_config().buffer_type == ttnn.BufferType.DRAM)
