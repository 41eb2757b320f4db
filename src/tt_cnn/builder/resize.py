# SPDX-License-Identifier: Apache-2.0
"""The layer that brings images to any size, between their pixels or at the nearest of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.nn import functional

from tt_cnn import ttnn
from tt_cnn.builder.flow import TILE, Flow, interleaved_beside
from tt_cnn.builder.image_configuration import ImageConfiguration
from tt_cnn.builder.layer import Layer, as_images
from tt_cnn.builder.lowering import whole_values
from tt_cnn.builder.rules import Rule, flags, instance, wholes
from tt_cnn.builder.weights import replicated

MODES = ("nearest", "nearest-exact", "bilinear")


@dataclass(frozen=True, eq=False)
class ResizeConfiguration(ImageConfiguration):
    """For what `UpsampleConfiguration` has no form: corners that stay corners, sizes that are no whole multiples."""

    size: tuple[int, int] | None = None
    scale_factor: tuple[float, float] | None = None
    """In the place of `size`; pixels are looked up by it and not by the quotient of the sizes, as in PyTorch."""
    mode: str = "bilinear"
    align_corners: bool | None = None
    memory_config: Any = None
    """None: interleaved, in the memory that the input is in."""
    deallocate_input: bool = False

    pairs = ("size", "scale_factor")
    rules = (
        *wholes("input_height", "input_width", "channels", "batch_size"),
        Rule("size", lambda c: (c.size is None) != (c.scale_factor is None), "given, or scale_factor in its place"),
        Rule("mode", lambda c: c.mode in MODES, " or ".join(map(repr, MODES))),
        Rule("align_corners", lambda c: c.align_corners in (None, False, True), "True, False or None"),
        instance("memory_config", None, ttnn.MemoryConfig),
        *flags("deallocate_input"),
    )

    @property
    def output_size(self) -> tuple[int, int]:
        if self.size is not None:
            return self.size
        assert self.scale_factor is not None
        height, width = self.scale_factor
        return int(self.input_height * height), int(self.input_width * width)

    @staticmethod
    def shape_of_torch(torch_layer: Any, input_hw: tuple[int, int]) -> dict[str, Any]:
        factor = torch_layer.scale_factor
        return {
            "size": torch_layer.size,
            "scale_factor": (factor, factor) if isinstance(factor, (int, float)) else factor,
            "mode": torch_layer.mode,
            "align_corners": torch_layer.align_corners,
        }


class TtResize(Layer):
    """(1, 1, N*H*W, C) to the same of the new size in tiles, by `ttnn.grid_sample` at points that are prepared once."""

    configuration: ResizeConfiguration
    configured_by = ResizeConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._grid: Any = None

    def run(self, x: Any) -> Any:
        return self._first_alone(lambda: self._run(x))

    def _run(self, x: Any) -> Any:
        config = self.configuration
        if self._grid is None:
            self._grid = self._prepared_grid()
        place = config.memory_config or interleaved_beside(x)
        flow = Flow(x, config.deallocate_input).interleaved(place).in_rows().then(as_images, config)
        missing = -config.channels % TILE
        if missing:
            flow.then(ttnn.pad, [(0, 0), (0, 0), (0, 0), (0, missing)], 0.0)
        flow.then(
            ttnn.grid_sample,
            self._grid,
            mode=self._mode,
            align_corners=True,
            use_precomputed_grid=True,
            memory_config=place,
            compute_kernel_config=whole_values(self.device),
        )
        pixels = config.batch_size * config.output_size[0] * config.output_size[1]
        if missing:
            flow.then(ttnn.slice, [0, 0, 0, 0], [*tuple(flow.value.shape)[:3], config.channels])
        return flow.then(ttnn.reshape, (1, 1, pixels, config.channels)).in_tiles().value

    @property
    def _mode(self) -> str:
        return "bilinear" if self.configuration.mode == "bilinear" else "nearest"

    def _prepared_grid(self) -> Any:
        """Of all images the same points; -1 and 1 are the centres of the first and the last pixel."""
        config = self.configuration
        rows, columns = self._places()
        grid = torch.stack(torch.broadcast_tensors(columns[None, :], rows[:, None]), -1).float()
        points = grid.expand(config.batch_size, *grid.shape).contiguous()
        prepared = ttnn.prepare_grid_sample_grid(
            cast(Any, ttnn.from_torch(points, dtype=ttnn.float32)),
            [config.batch_size, config.input_height, config.input_width, config.channels],
            mode=self._mode,
            padding_mode="zeros",
            align_corners=True,
        )
        values = ttnn.to_torch(prepared)
        return ttnn.from_torch(
            values,
            dtype=ttnn.bfloat16,
            layout=ttnn.ROW_MAJOR_LAYOUT,
            device=self.device,
            mesh_mapper=replicated(self.device),
        )

    def _places(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Where PyTorch looks for the pixels of each row and column: what it makes of their own numbers."""
        config = self.configuration
        height, width = config.input_height, config.input_width
        numbers = torch.meshgrid(torch.arange(height).double(), torch.arange(width).double(), indexing="ij")
        resized = functional.interpolate(
            torch.stack(numbers)[None],
            size=config.size,
            scale_factor=config.scale_factor,
            mode=config.mode,
            align_corners=config.align_corners if config.mode == "bilinear" else None,
        )
        rows, columns = resized[0, 0, :, 0], resized[0, 1, 0, :]
        return _relative(rows, height), _relative(columns, width)


def _relative(places: torch.Tensor, size: int) -> torch.Tensor:
    return places * (2 / (size - 1)) - 1 if size > 1 else places * 0
