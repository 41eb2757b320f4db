# SPDX-License-Identifier: Apache-2.0
"""Program configs of softmax and layer norm."""

from __future__ import annotations

from dataclasses import dataclass

from tt_cnn.virtual.types.geometry import CoreCoord


@dataclass(kw_only=True, unsafe_hash=True)
class LayerNormDefaultProgramConfig:
    """Interleaved tensors: rows of tiles are distributed to cores."""

    legacy_reduction: bool = False
    legacy_rsqrt: bool = False
    use_welford: bool = False


@dataclass(kw_only=True, unsafe_hash=True)
class LayerNormShardedMultiCoreProgramConfig:
    """Sharded tensors: each core normalizes its shard, with statistics gathered along rows of cores."""

    compute_with_storage_grid_size: CoreCoord | tuple[int, int]
    subblock_w: int
    block_h: int
    block_w: int
    inplace: bool
    legacy_reduction: bool = False
    legacy_rsqrt: bool = False
    use_welford: bool = False


@dataclass(kw_only=True, unsafe_hash=True)
class SoftmaxDefaultProgramConfig:
    """Interleaved tensors: rows of tiles are distributed to cores."""


@dataclass(kw_only=True, unsafe_hash=True)
class SoftmaxShardedMultiCoreProgramConfig:
    """Sharded tensors: each core works on its shard."""

    compute_with_storage_grid_size: CoreCoord | tuple[int, int]
    subblock_w: int
    block_h: int
    block_w: int
