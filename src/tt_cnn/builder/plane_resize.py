# SPDX-License-Identifier: Apache-2.0
"""The layer that brings images of few channels to any size, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from tt_cnn import ttnn
from tt_cnn.builder.constants import matrix_on_device
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.layer import Layer, as_images
from tt_cnn.builder.lowering import whole_values
from tt_cnn.builder.resize import ResizeConfiguration


@dataclass(frozen=True, eq=False)
class PlaneResizeConfiguration(ResizeConfiguration):
    """The output is (N, C, H, W) in tiles, in L1 where `memory_config` is None. With fewer channels than a tile has
    columns nothing else is as quick, as all that works on pixels fills their channels up."""


class TtPlaneResize(Layer):
    """(1, 1, N*H*W, C) to (N, C, H, W) of the new size: every new row is a sum of old ones with weights, so is each
    column, and both are products with matrices that are prepared once."""

    configuration: PlaneResizeConfiguration
    configured_by = PlaneResizeConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._matrices: tuple[Any, Any] | None = None

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._matrices is None:
            self._matrices = self._prepared_matrices()
        of_rows, of_columns = self._matrices
        place = config.memory_config or ttnn.L1_MEMORY_CONFIG
        flow = Flow(x, config.deallocate_input).interleaved(place).in_tiles(ttnn.bfloat16).then(as_images, config)
        flow.then(ttnn.permute, (0, 3, 1, 2), memory_config=place)  # with both at once it takes twenty times as long
        flow.then(ttnn.transpose, -2, -1, memory_config=place)
        self._times(flow, of_rows, place)
        flow.then(ttnn.transpose, -2, -1, memory_config=place)
        return self._times(flow, of_columns, place).move_to(config.memory_config).value

    def _times(self, flow: Flow, matrix: Any, place: Any) -> Flow:
        """All planes below each other are one product where they fill tiles: TT-NN makes many small ones slowly."""
        *planes, rows, columns = tuple(flow.value.shape)
        whole = rows % TILE == 0
        if whole:
            flow.then(ttnn.reshape, (1, 1, planes[0] * planes[1] * rows, columns))
        grid = self.device.compute_with_storage_grid_size()
        flow.then(
            ttnn.matmul,
            matrix,
            core_grid=ttnn.CoreGrid(x=grid.x, y=grid.y),
            memory_config=place,
            compute_kernel_config=whole_values(self.device),
        )
        return flow.then(ttnn.reshape, (*planes, rows, flow.value.shape[-1])) if whole else flow

    def _prepared_matrices(self) -> tuple[Any, Any]:
        """What PyTorch makes of each row, and of each column, alone."""
        config = self.configuration
        rows, columns = torch.eye(config.input_height), torch.eye(config.input_width)
        height, width = config.size or (None, None)
        factors = config.scale_factor or (None, None)
        return (
            matrix_on_device(self._resized(rows, height, factors[0]).T, self.device),
            matrix_on_device(self._resized(columns, width, factors[1]).T, self.device),
        )

    def _resized(self, values: torch.Tensor, height: int | None, factor: float | None) -> torch.Tensor:
        """(height, columns) to the new height."""
        config = self.configuration
        return functional.interpolate(
            values[None, None],
            size=None if height is None else (height, values.shape[1]),
            scale_factor=None if factor is None else (factor, 1.0),
            mode=config.mode,
            align_corners=config.align_corners if config.mode == "bilinear" else None,
        )[0, 0]
