# SPDX-License-Identifier: Apache-2.0
"""The layer that distributes the channels of several groups in turn."""

from __future__ import annotations

from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder.channel_shuffle_configuration import ChannelShuffleConfiguration
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import Flow
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.lowering import whole_values

_FEW = 3
"""Of how many cores one must hold a shard so that the product is made where the pixels are."""


class TtChannelShuffle(Layer):
    """(..., C) to the same shape, by a product with a matrix of zeros and ones: to turn the two dimensions of groups
    and their channels takes TT-NN some twenty times as long."""

    configuration: ChannelShuffleConfiguration
    configured_by = ChannelShuffleConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._order: Any = None

    def __call__(self, x: Any) -> Any:  # type: ignore[override]
        return super().__call__(x)

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._order is None:
            self._order = matrix_on_device(_order(config.channels, config.groups), self.device, ttnn.bfloat8_b)
        wanted = config.memory_config or x.memory_config()
        flow = Flow(x, config.deallocate_input).in_tiles()
        if self._stays(flow.value):
            own = {"memory_config": flow.value.memory_config()}
        else:
            flow.interleaved()
            in_l1 = wanted.buffer_type == ttnn.BufferType.L1
            place = ttnn.L1_MEMORY_CONFIG if in_l1 else ttnn.DRAM_MEMORY_CONFIG
            own = {"memory_config": place, "core_grid": ttnn.CoreGrid(x=8, y=8)}
        flow.then(
            ttnn.matmul,
            self._order,
            dtype=config.output_dtype or flow.value.dtype,
            compute_kernel_config=whole_values(self.device),
            **own,
        )
        return flow.move_to(wanted).value

    def _stays(self, x: Any) -> bool:
        """Height shards on enough cores are multiplied where they are."""
        memory = x.memory_config()
        if memory.memory_layout != ttnn.TensorMemoryLayout.HEIGHT_SHARDED:
            return False
        grid = self.device.compute_with_storage_grid_size()
        return bool(_FEW * memory.shard_spec.grid.num_cores() > grid.x * grid.y)


def _order(channels: int, groups: int) -> torch.Tensor:
    """A column for each channel of the output, with a 1 in the row of the input's channel."""
    taken = torch.arange(channels).reshape(groups, -1).T.reshape(-1)
    return torch.eye(channels)[:, taken]
