# SPDX-License-Identifier: Apache-2.0
"""Layers from configurations: what to run is data, how TT-NN is called is here.

    configuration = Conv2dConfiguration.from_torch(torch_layer, input_height=224, input_width=224, batch_size=1)
    layer = TtConv2d(configuration, device)
    output = layer(x)

Each class `Tt...` is a layer, and `...Configuration` without the `Tt` describes it.
"""

from tt_cnn.builder.activation import TtActivation
from tt_cnn.builder.activation_configuration import ActivationConfiguration
from tt_cnn.builder.add import TtAdd
from tt_cnn.builder.add_configuration import AddConfiguration
from tt_cnn.builder.attention import TtAttention
from tt_cnn.builder.attention_configuration import AttentionConfiguration
from tt_cnn.builder.avg_pool2d import TtAvgPool2d
from tt_cnn.builder.avg_pool2d_configuration import AvgPool2dConfiguration
from tt_cnn.builder.batch_norm2d import TtBatchNorm2d
from tt_cnn.builder.batch_norm2d_configuration import BatchNorm2dConfiguration
from tt_cnn.builder.channel_shuffle import TtChannelShuffle
from tt_cnn.builder.channel_shuffle_configuration import ChannelShuffleConfiguration
from tt_cnn.builder.channel_slices import free
from tt_cnn.builder.concat import TtConcat
from tt_cnn.builder.concat_configuration import ConcatConfiguration
from tt_cnn.builder.configuration import Configuration, configuration_from_dict
from tt_cnn.builder.conv2d import TtConv2d
from tt_cnn.builder.conv2d_configuration import Conv2dConfiguration
from tt_cnn.builder.conv_transpose2d import TtConvTranspose2d
from tt_cnn.builder.conv_transpose2d_configuration import ConvTranspose2dConfiguration
from tt_cnn.builder.global_avg_pool2d import TtGlobalAvgPool2d
from tt_cnn.builder.global_avg_pool2d_configuration import GlobalAvgPool2dConfiguration
from tt_cnn.builder.group_norm import TtGroupNorm
from tt_cnn.builder.group_norm_configuration import GroupNormConfiguration
from tt_cnn.builder.layer import Layer
from tt_cnn.builder.layer_norm import TtLayerNorm, TtRMSNorm
from tt_cnn.builder.layer_norm_configuration import LayerNormConfiguration, RMSNormConfiguration
from tt_cnn.builder.linear import TtLinear
from tt_cnn.builder.linear_configuration import LinearConfiguration
from tt_cnn.builder.lowering import (
    sharding_strategy_to_conv2d_config,
    to_compute_config,
    to_conv2d_config,
    to_slice_config,
)
from tt_cnn.builder.max_pool2d import TtMaxPool2d
from tt_cnn.builder.max_pool2d_configuration import MaxPool2dConfiguration
from tt_cnn.builder.multiply import TtMultiply
from tt_cnn.builder.multiply_configuration import MultiplyConfiguration
from tt_cnn.builder.overrides import Assignment, overriding
from tt_cnn.builder.pixel_shuffle import TtPixelShuffle, TtPixelUnshuffle
from tt_cnn.builder.pixel_shuffle_configuration import PixelShuffleConfiguration, PixelUnshuffleConfiguration
from tt_cnn.builder.placement import TtPlacement
from tt_cnn.builder.placement_configuration import PlacementConfiguration
from tt_cnn.builder.prelu import TtPReLU
from tt_cnn.builder.prelu_configuration import PReLUConfiguration
from tt_cnn.builder.sharding import (
    AutoShardedStrategyConfiguration,
    AutoTunedStrategyConfiguration,
    BlockShardedStrategyConfiguration,
    HeightShardedStrategyConfiguration,
    ShardedStrategyConfiguration,
    ShardingStrategy,
    WidthShardedStrategyConfiguration,
)
from tt_cnn.builder.slicing import (
    ChannelSliceStrategyConfiguration,
    HeightSliceStrategyConfiguration,
    L1FullSliceStrategyConfiguration,
    SliceStrategy,
    SliceStrategyConfiguration,
    WidthSliceStrategyConfiguration,
)
from tt_cnn.builder.squeeze_excite import TtSqueezeExcite
from tt_cnn.builder.squeeze_excite_configuration import SqueezeExciteConfiguration
from tt_cnn.builder.torch_activations import activation_from_torch
from tt_cnn.builder.upsample import TtUpsample
from tt_cnn.builder.upsample_configuration import UpsampleConfiguration

LayerConfiguration = (
    Conv2dConfiguration
    | ConvTranspose2dConfiguration
    | MaxPool2dConfiguration
    | AvgPool2dConfiguration
    | GlobalAvgPool2dConfiguration
    | UpsampleConfiguration
    | LinearConfiguration
    | PlacementConfiguration
    | AddConfiguration
    | ConcatConfiguration
    | BatchNorm2dConfiguration
    | MultiplyConfiguration
    | PReLUConfiguration
    | ActivationConfiguration
    | SqueezeExciteConfiguration
    | ChannelShuffleConfiguration
    | PixelShuffleConfiguration
    | PixelUnshuffleConfiguration
    | LayerNormConfiguration
    | RMSNormConfiguration
    | GroupNormConfiguration
    | AttentionConfiguration
)

__all__ = [
    "ActivationConfiguration",
    "AddConfiguration",
    "Assignment",
    "AttentionConfiguration",
    "AutoShardedStrategyConfiguration",
    "AutoTunedStrategyConfiguration",
    "AvgPool2dConfiguration",
    "BatchNorm2dConfiguration",
    "BlockShardedStrategyConfiguration",
    "ChannelShuffleConfiguration",
    "ChannelSliceStrategyConfiguration",
    "ConcatConfiguration",
    "Configuration",
    "Conv2dConfiguration",
    "ConvTranspose2dConfiguration",
    "GlobalAvgPool2dConfiguration",
    "GroupNormConfiguration",
    "HeightShardedStrategyConfiguration",
    "HeightSliceStrategyConfiguration",
    "L1FullSliceStrategyConfiguration",
    "Layer",
    "LayerConfiguration",
    "LayerNormConfiguration",
    "LinearConfiguration",
    "MaxPool2dConfiguration",
    "MultiplyConfiguration",
    "PReLUConfiguration",
    "PixelShuffleConfiguration",
    "PixelUnshuffleConfiguration",
    "PlacementConfiguration",
    "RMSNormConfiguration",
    "ShardedStrategyConfiguration",
    "ShardingStrategy",
    "SliceStrategy",
    "SliceStrategyConfiguration",
    "SqueezeExciteConfiguration",
    "TtActivation",
    "TtAdd",
    "TtAttention",
    "TtAvgPool2d",
    "TtBatchNorm2d",
    "TtChannelShuffle",
    "TtConcat",
    "TtConv2d",
    "TtConvTranspose2d",
    "TtGlobalAvgPool2d",
    "TtGroupNorm",
    "TtLayerNorm",
    "TtLinear",
    "TtMaxPool2d",
    "TtMultiply",
    "TtPReLU",
    "TtPixelShuffle",
    "TtPixelUnshuffle",
    "TtPlacement",
    "TtRMSNorm",
    "TtSqueezeExcite",
    "TtUpsample",
    "UpsampleConfiguration",
    "WidthShardedStrategyConfiguration",
    "WidthSliceStrategyConfiguration",
    "activation_from_torch",
    "configuration_from_dict",
    "free",
    "overriding",
    "sharding_strategy_to_conv2d_config",
    "to_compute_config",
    "to_conv2d_config",
    "to_slice_config",
]
