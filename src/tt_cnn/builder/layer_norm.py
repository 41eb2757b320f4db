# SPDX-License-Identifier: Apache-2.0
"""The layers of norms over the last dimension of pixels or tokens."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

from tt_cnn import ttnn
from tt_cnn.builder.constants import tiles_on_device
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.layer_norm_configuration import (
    LayerNormConfiguration,
    RMSNormConfiguration,
    RowNormConfiguration,
)
from tt_cnn.builder.lowering import to_compute_config

_WIDE, _LOW = 12, 2
"""Tiles of channels from which several cores are quicker for a row than one, and rows of tiles that each of them may
have then: what they tell each other takes 10 µs and more, one core alone 1.2 µs per tile (predicted)."""
_WORTH_MOVING = 16
_SIDE = 8
"""Of the grid of cores that rows are moved to."""


class RowNorm(Layer):
    """(..., channels) to the same shape. Interleaved rows are distributed to the cores whole; low and wide ones are put
    into blocks of shards, so that several cores work on a row."""

    configuration: RowNormConfiguration
    operation: ClassVar[str]
    """TT-NN's name of the op."""

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self.compute_config = to_compute_config(configuration, self.device)
        self.weight = configuration.weight
        self.bias = configuration.bias

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        wanted = config.memory_config or x.memory_config()
        self.weight, self.bias = (
            None if row is None else tiles_on_device(row, self.device) for row in (self.weight, self.bias)
        )
        flow = Flow(x, config.deallocate_input).in_tiles()
        place = self._blocks(flow.value)
        if place is not None:
            flow.move_to(place)
        else:
            flow.interleaved()
            place = wanted if wanted.shard_spec is None else ttnn.L1_MEMORY_CONFIG
        flow.then(
            getattr(ttnn, self.operation),
            epsilon=config.epsilon,
            weight=self.weight,
            bias=self.bias,
            memory_config=place,
            compute_kernel_config=self.compute_config,
        )
        return flow.move_to(wanted).value

    def _blocks(self, x: Any) -> Any:
        """The block shards to work in; None where whole rows are quicker."""
        columns = x.padded_shape[-1] // TILE
        rows = prod(x.padded_shape) // columns // TILE**2
        if columns < _WIDE:
            return None
        memory = x.memory_config()
        if memory.memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED and _low_and_full(memory, rows, columns):
            return memory
        if columns < _WORTH_MOVING or rows > _SIDE:
            return None
        across = next(n for n in range(_SIDE, 0, -1) if columns % n == 0)
        cores = ttnn.CoreRangeSet([ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord(across - 1, rows - 1))])
        spec = ttnn.ShardSpec(cores, [TILE, columns // across * TILE], ttnn.ShardOrientation.ROW_MAJOR)
        blocks = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.BLOCK_SHARDED, ttnn.BufferType.L1, spec)
        return blocks if across > 1 else None


def _low_and_full(memory: Any, rows: int, columns: int) -> bool:
    """Shards that are quick to work in, and fill their cores as TT-NN wants them."""
    high, wide = (size // TILE for size in memory.shard_spec.shape)
    box = memory.shard_spec.grid.bounding_box().grid_size()
    down, across = -(-rows // high), -(-columns // wide)
    if memory.shard_spec.orientation != ttnn.ShardOrientation.ROW_MAJOR:
        return False
    return bool(high <= _LOW and (across, down) == (box.x, box.y))


class TtLayerNorm(RowNorm):
    configuration: LayerNormConfiguration
    configured_by = LayerNormConfiguration
    operation = "layer_norm"


class TtRMSNorm(RowNorm):
    configuration: RMSNormConfiguration
    configured_by = RMSNormConfiguration
    operation = "rms_norm"
