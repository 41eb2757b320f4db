# SPDX-License-Identifier: Apache-2.0
"""The upsampling layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.channel_slices import ChannelSlicedLayer, concatenated_over_slices
from tt_cnn.builder.flow import TILE, Flow
from tt_cnn.builder.layer import as_images
from tt_cnn.builder.pixels import PixelSpread
from tt_cnn.builder.upsample_configuration import UpsampleConfiguration

_COPYING, _MIXING = 4, 2
"""Of how many cores one must hold a shard so that it is quicker to work there than to move the pixels to all cores:
rows are copied quickest inside a core, mixing takes longer than a move."""


class TtUpsample(ChannelSlicedLayer):
    """The output is (N, H, W, C) in rows, or flattened in tiles. An input that a convolution left flattened is seen as
    images again; one in tiles is brought to rows first, where TT-NN does not take it as it is."""

    configuration: UpsampleConfiguration
    configured_by = UpsampleConfiguration

    def configure(self, configuration: Any) -> None:
        super().configure(configuration)
        self._spread = PixelSpread(self.device, configuration.batch_size)

    def run(self, x: Any) -> Any:
        config = self.configuration
        flow = Flow(x, config.deallocate_input)
        if (config.input_height, config.input_width) == (1, 1) and x.layout == ttnn.TILE_LAYOUT:
            self._first_alone(lambda: self._repeat_pixels(flow))
        else:
            if not self._goes_as_tiles(x):
                flow.in_rows()
            self._leave_shards(flow)
            flow.then(as_images, config).then(self._enlarged)
        return self._finish(flow).value

    def upsample(self, x: Any) -> Any:
        """The op; channels that are no whole tiles are filled up for bilinear mixing."""
        missing = -x.shape[-1] % TILE if self.configuration.mode == "bilinear" else 0
        if not missing:
            return ttnn.upsample(input_tensor=x, **self.get_upsample_kwargs())
        flow = Flow(x).then(ttnn.pad, [(0, 0), (0, 0), (0, 0), (0, missing)], 0.0)
        flow.then(lambda padded: ttnn.upsample(input_tensor=padded, **self.get_upsample_kwargs()))
        *leading, _ = tuple(flow.value.shape)
        return flow.then(ttnn.slice, [0, 0, 0, 0], [*leading, x.shape[-1]]).value

    def get_upsample_kwargs(self) -> dict[str, Any]:
        """The keywords of `ttnn.upsample` that the configuration decides."""
        return {"scale_factor": list(self.configuration.scale_factor), "mode": self.configuration.mode}

    def _enlarged(self, images: Any) -> Any:
        if not self.use_channel_slicing:
            return self.upsample(images)
        return concatenated_over_slices(images, self.configuration.channels, self.num_slices, self.upsample)

    def _goes_as_tiles(self, x: Any) -> bool:
        """TT-NN takes interleaved tiles that rows of pixels fill, and repeats them several times quicker than rows."""
        config = self.configuration
        whole = config.input_width % TILE == 0 and config.channels % TILE == 0
        return bool(whole and config.mode == "nearest" and not self.use_channel_slicing and not x.is_sharded())

    def _leave_shards(self, flow: Flow) -> None:
        """Where TT-NN refuses them, or where all cores together are quicker."""
        config = self.configuration
        if not flow.value.is_sharded() or tuple(flow.value.shape)[:-1] != _flat(config):
            return  # images in shards are as their owner wants them
        memory = flow.value.memory_config()
        high = memory.memory_layout == ttnn.TensorMemoryLayout.HEIGHT_SHARDED
        bilinear = config.mode == "bilinear"
        if bilinear:
            taken = high and config.channels % TILE == 0
        else:
            across = memory.shard_spec.grid.bounding_box().grid_size().x * memory.shard_spec.shape[1]
            blocks = memory.memory_layout == ttnn.TensorMemoryLayout.BLOCK_SHARDED
            taken = high or (blocks and across == config.channels)
        grid = self.device.compute_with_storage_grid_size()
        few = memory.shard_spec.grid.num_cores() * (_MIXING if bilinear else _COPYING) <= grid.x * grid.y
        if not taken or few or self.use_channel_slicing:
            flow.interleaved()

    def _repeat_pixels(self, flow: Flow) -> None:
        """Images of one pixel, in either mode."""
        config = self.configuration
        height, width = config.output_size
        flow.interleaved().then(ttnn.reshape, (1, 1, config.batch_size, config.channels))
        flow.then(self._spread, config.batch_size * height * width)

    def _finish(self, flow: Flow) -> Flow:
        config = self.configuration
        images = (config.batch_size, *config.output_size, config.channels)
        if config.output_layout == ttnn.ROW_MAJOR_LAYOUT:
            flow.in_rows()
            if tuple(flow.value.shape) != images:
                flow.then(ttnn.reshape, images)
            return flow.move_to(config.memory_config)
        flat = (1, 1, images[0] * images[1] * images[2], config.channels)
        if tuple(flow.value.shape) != flat:
            flow.then(ttnn.reshape, flat)
        return flow.in_tiles(config.output_dtype).move_to(config.memory_config)


def _flat(config: UpsampleConfiguration) -> tuple[int, ...]:
    return (1, 1, config.batch_size * config.input_height * config.input_width)
