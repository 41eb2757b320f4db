"""The layer that joins branches along the channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.concat_configuration import ConcatConfiguration
from tt_cnn.builder.layer import Layer, telling
from tt_cnn.builder.naming import named

TILE = 32
_INTERLEAVED = {"l1": ttnn.L1_MEMORY_CONFIG, "dram": ttnn.DRAM_MEMORY_CONFIG}


class TtConcat(Layer):
    """Maps (1, 1, N*H*W, C) side by side in one; the parts are given back.

    What has to be done to the parts first follows from what they are when they come: where they lie, in which layout
    and dtype.
    """

    configuration: ConcatConfiguration
    configured_by = ConcatConfiguration

    def __call__(self, parts: Sequence[Any], beside: int = 0, dim: int = 3) -> Any:
        """`beside` is the part on whose cores they are joined in shards; along another `dim` they cannot be."""
        for part in parts:
            self._check_input(part)
        with named(self.name), telling(self.name):
            return self._joined(list(parts), beside, dim)

    def _joined(self, parts: list[Any], beside: int, dim: int) -> Any:
        config = self.configuration
        anchor = next((part for part in (parts[beside], *parts) if part.is_sharded()), parts[beside])
        where = _INTERLEAVED.get(config.place) or anchor.memory_config()
        if where.shard_spec is not None and dim != 3:
            raise ValueError(f"place is {config.place!r}; it must be 'l1' or 'dram' along dimension {dim}.")
        dtype = config.output_dtype or _common_dtype(parts)
        parts = _moved(parts, where, anchor.shape[-1])
        in_tiles = config.layout == ttnn.TILE_LAYOUT if config.layout is not None else _fit_as_tiles(parts, dtype)
        parts = [_in_tiles(part, dtype) if in_tiles else _replaced(part, _in_rows(part)) for part in parts]
        wanted = where if where.shard_spec is None else _config_of_all(parts, in_tiles)
        together = ttnn.concat(parts, dim=dim, memory_config=wanted)
        for part in parts:
            free(part)
        if config.output_layout is not None and together.layout != config.output_layout:
            own = {"dtype": dtype} if config.output_layout == ttnn.TILE_LAYOUT else {}
            together = _replaced(together, ttnn.to_layout(together, config.output_layout, **own))
        return ttnn.reallocate(together) if config.reallocate and not _in_dram(together) else together


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


def _moved(parts: list[Any], where: Any, channels: int) -> list[Any]:
    """`where` is a memory to interleave them in, or that of one of them, which has so many channels.

    What is interleaved already may lie in another memory than the result.
    """
    moved = []
    for part in parts:
        if where.shard_spec is None:
            moved.append(_replaced(part, ttnn.sharded_to_interleaved(part, where)) if part.is_sharded() else part)
            continue
        wanted = on_cores_of(part, where, channels)
        fits = part.memory_config() in (wanted, where)
        moved.append(part if fits else _replaced(part, ttnn.to_memory_config(part, wanted)))
    return moved


def _common_dtype(parts: list[Any]) -> Any:
    first = parts[0].dtype
    return first if all(part.dtype == first for part in parts) else ttnn.bfloat16


def _fit_as_tiles(parts: list[Any], dtype: Any) -> bool:
    if any(part.layout != ttnn.TILE_LAYOUT for part in parts):
        return False
    return not parts[0].is_sharded() or all(part.dtype == dtype and part.shape[-1] % TILE == 0 for part in parts)


def _in_tiles(x: Any, dtype: Any) -> Any:
    if x.layout != ttnn.TILE_LAYOUT:
        return _replaced(x, ttnn.to_layout(x, ttnn.TILE_LAYOUT, dtype=dtype))
    return x if x.dtype == dtype else _replaced(x, ttnn.typecast(x, dtype))


def _in_rows(x: Any) -> Any:
    return x if x.layout == ttnn.ROW_MAJOR_LAYOUT else ttnn.to_layout(x, ttnn.ROW_MAJOR_LAYOUT)


def _config_of_all(parts: list[Any], in_tiles: bool) -> Any:
    """The shards of the first, wide enough for all."""
    config = parts[0].memory_config()
    height = config.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
    own = height and not in_tiles
    return resized(config, sum(part.shape[-1] if own else part.memory_config().shard_spec.shape[1] for part in parts))


def _replaced(old: Any, new: Any) -> Any:
    if new is not old:
        free(old)
    return new


def _in_dram(x: Any) -> bool:
    return bool(x.memory_config().buffer_type == ttnn.BufferType.DRAM)
