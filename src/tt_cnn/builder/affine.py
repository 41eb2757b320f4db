# SPDX-License-Identifier: Apache-2.0
"""A scale and a shift for each channel, by the quicker of two ways."""

from __future__ import annotations

from math import prod
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.activations import activated

TILE = 32
_FEW_CORES = 5
"""By how much more tiles a core may have than on the whole grid so that the one op is still the quicker way. It works
on shards where they are; a product and a sum that spread a row over the pixels go through all cores (predicted: 0.9
µs per tile of a core for the one, 2.7 µs for each of the others)."""


def affine(
    x: Any,
    scale: Any,
    shift: Any,
    activation: Any = None,
    output: Any = None,
    memory_config: Any = None,
    dtype: Any = None,
) -> Any:
    """x * scale + shift through the activation, for tiles x and rows (1, 1, 1, C) of bfloat16.

    `output` is a tensor for the result, else it is in `memory_config` or where x is, in `dtype` or x's.
    """
    where = memory_config or x.memory_config()
    wanted = dtype or x.dtype
    if x.dtype == wanted == scale.dtype == ttnn.bfloat16 and not _on_few_cores(x):
        own = {"memory_config": where} if output is None else {"output_tensor": output}
        total = ttnn.addcmul(shift, x, scale, **own)
        return total if activation is None else activated(total, activation)
    own = {"memory_config": where, "dtype": wanted} if output is None else {"output_tensor": output}
    total = ttnn.multiply(x, scale, **own)
    last = {} if activation is None else {"activations": [activation]}
    return ttnn.add(total, shift, output_tensor=total, **last)


def _on_few_cores(x: Any) -> bool:
    if not x.is_sharded():
        return False
    height, width = x.memory_config().shard_spec.shape
    grid = x.device().compute_with_storage_grid_size()
    tiles = prod(x.padded_shape) // TILE**2
    return bool(height * width // TILE**2 > _FEW_CORES * -(-tiles // (grid.x * grid.y)))
