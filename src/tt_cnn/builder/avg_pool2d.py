"""The average pool layer."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.avg_pool2d_configuration import AvgPool2dConfiguration
from tt_cnn.builder.lowering import to_compute_config
from tt_cnn.builder.pool import PoolLayer


class TtAvgPool2d(PoolLayer):
    configuration: AvgPool2dConfiguration
    configured_by = AvgPool2dConfiguration

    def __init__(self, configuration: Any, device: Any, name: str = "") -> None:
        super().__init__(configuration, device, name)
        self.compute_config = to_compute_config(configuration, device)

    def pool(self, x: Any) -> Any:
        config = self.configuration
        return ttnn.avg_pool2d(
            input_tensor=x,
            batch_size=config.batch_size,
            input_h=config.input_height,
            input_w=config.input_width,
            channels=self.channels_per_slice,
            kernel_size=config.kernel_size,
            stride=config.stride,
            padding=config.padding,
            ceil_mode=config.ceil_mode,
            count_include_pad=config.count_include_pad,
            divisor_override=config.divisor_override,
            applied_shard_scheme=config.applied_shard_scheme,
            compute_kernel_config=self.compute_config,
            deallocate_input=config.deallocate_input,
            reallocate_halo_output=config.reallocate_halo_output,
            dtype=config.dtype,
            output_layout=config.output_layout,
            config_tensor_in_dram=config.config_tensor_in_dram,
        )
