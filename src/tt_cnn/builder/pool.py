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

    def pool(self, x: Any) -> Any:
        """The op, on as many channels as a slice has."""
        raise NotImplementedError
