# SPDX-License-Identifier: Apache-2.0
"""Configurations in TT-NN's own terms."""

from __future__ import annotations

from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.convolution_configuration import ConvolutionConfiguration
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    AutoTunedStrategyConfiguration,
    ShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import ChannelSliceStrategyConfiguration, SliceStrategyConfiguration

_OPTIONS_OF_STRATEGIES = ("act_block_h_override", "act_block_w_div", "override_output_sharding_config")
"""Those that a strategy has are passed on under the same name."""


def sharding_strategy_to_conv2d_config(sharding_strategy: ShardedStrategyConfiguration) -> dict[str, Any]:
    """The keywords of ttnn.Conv2dConfig that a strategy decides, beyond the layout."""
    if isinstance(sharding_strategy, (AutoShardedStrategyConfiguration, AutoTunedStrategyConfiguration)):
        return {}
    options = {n: getattr(sharding_strategy, n) for n in _OPTIONS_OF_STRATEGIES if hasattr(sharding_strategy, n)}
    grid = sharding_strategy.override_core_grid  # type: ignore[attr-defined]
    return {
        **options,
        "reshard_if_not_optimal": sharding_strategy.reshard_if_not_optimal,  # type: ignore[attr-defined]
        "core_grid": grid,
        "override_sharding_config": grid is not None,
    }


def to_conv2d_config(configuration: ConvolutionConfiguration) -> Any:
    config = ttnn.Conv2dConfig(
        weights_dtype=configuration.weights_dtype,
        activation=configuration.used_activation,
        deallocate_activation=configuration.deallocate_activation,
        reallocate_halo_output=configuration.reallocate_halo_output,
        config_tensors_in_dram=configuration.config_tensors_in_dram,
        shard_layout=configuration.sharding_strategy.get_tensor_memory_layout(),
        output_layout=configuration.output_layout,
        enable_act_double_buffer=configuration.enable_act_double_buffer,
        enable_weights_double_buffer=configuration.enable_weights_double_buffer,
        **sharding_strategy_to_conv2d_config(configuration.sharding_strategy),
    )
    if hasattr(configuration, "padding_mode"):
        config.padding_mode = configuration.padding_mode
    return config


def to_compute_config(configuration: Any, device: Any) -> Any:
    return ttnn.init_device_compute_kernel_config(
        device.arch(),
        math_fidelity=configuration.math_fidelity,
        fp32_dest_acc_en=configuration.fp32_dest_acc_en,
        packer_l1_acc=configuration.packer_l1_acc,
    )


def whole_values(device: Any) -> Any:
    """For products that only move values: nothing is cut off on the way."""
    return ttnn.init_device_compute_kernel_config(
        device.arch(), math_fidelity=ttnn.MathFidelity.HiFi4, fp32_dest_acc_en=True, packer_l1_acc=False
    )


def to_slice_config(slice_strategy: SliceStrategyConfiguration | None) -> Any:
    """None leaves it to TT-NN: an input in L1 is not cut, any other is as often as it must be."""
    if slice_strategy is None:
        return None
    if isinstance(slice_strategy, ChannelSliceStrategyConfiguration):
        return ttnn.Conv2dL1FullSliceConfig
    return ttnn.Conv2dSliceConfig(slice_type=slice_strategy.get_slice_type(), num_slices=slice_strategy.num_slices)
