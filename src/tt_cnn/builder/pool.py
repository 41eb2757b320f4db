# SPDX-License-Identifier: Apache-2.0
"""What layers of pools share: channel slicing, and giving the input back."""

from __future__ import annotations

from typing import Any

from tt_cnn.builder.channel_slices import ChannelSlicedLayer, concatenated_over_slices, free


class PoolLayer(ChannelSlicedLayer):
    def run(self, x: Any) -> Any:
        config = self.configuration
        if not self.use_channel_slicing:
            return self.pool(x)
        output = concatenated_over_slices(x, config.channels, self.num_slices, self.pool)
        if config.deallocate_input and x.is_sharded():  # TT-NN's own pools give back no other input
            free(x)
        return output

    def keywords(self, *own: str) -> dict[str, Any]:
        """Those of the op that the configuration decides, but for the channels; not all pools have `own`."""
        config = self.configuration
        window = ("batch_size", "kernel_size", "stride", "padding", "ceil_mode")
        running = ("applied_shard_scheme", "deallocate_input", "reallocate_halo_output", "config_tensor_in_dram")
        output = ("dtype", "output_layout")
        same = {name: getattr(config, name) for name in (*window, *own, *running, *output)}
        return {"input_h": config.input_height, "input_w": config.input_width, **same}

    def pool(self, x: Any) -> Any:
        """The op, on as many channels as a slice has."""
        raise NotImplementedError
