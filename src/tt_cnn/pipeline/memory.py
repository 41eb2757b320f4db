# SPDX-License-Identifier: Apache-2.0
"""Where the tensors that a pipeline keeps in DRAM lie."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tt_cnn import ttnn


def get_memory_config_for_persistent_dram_tensor(shape: Sequence[int], shard_strategy: Any, dram_grid_size: Any) -> Any:
    """Even shards over as many DRAM banks as divide the tensor, along its height or its width.

    Writes from the host do not support uneven width shards (tt-metal issue 22396), hence even ones.
    """
    dims = list(shape)
    if len(dims) < 2:
        raise ValueError(f"Shape must be 2D or higher (was {dims})")
    if dram_grid_size.y != 1:
        raise ValueError(f"Only 1D DRAM grid is supported (was {dram_grid_size})")
    height, width = prod(dims[:-1]), dims[-1]
    layouts = ttnn.TensorMemoryLayout
    if shard_strategy == layouts.WIDTH_SHARDED:
        banks = _most_even_parts(width, dram_grid_size.x)
        shard = [height, width // banks]
    elif shard_strategy == layouts.HEIGHT_SHARDED:
        banks = _most_even_parts(height, dram_grid_size.x)
        shard = [height // banks, width]
    else:
        raise ValueError(f"shard_strategy is {shard_strategy}; it must be WIDTH_SHARDED or HEIGHT_SHARDED")
    cores = ttnn.CoreRangeSet({ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(banks - 1, 0))})
    spec = ttnn.ShardSpec(cores, shard, ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(shard_strategy, ttnn.BufferType.DRAM, spec)


def _most_even_parts(size: int, at_most: int) -> int:
    if size < 1:
        raise ValueError(f"Shape must have no empty dimension (the sharded one is {size})")
    return next(parts for parts in range(at_most, 0, -1) if size % parts == 0)
