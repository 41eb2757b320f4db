# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP006, UP008, UP035 - the guide's own spelling
"""The UNet of the bring-up guide: its snippets as they stand there, and what they abbreviate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    BlockShardedStrategyConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    HeightShardedStrategyConfiguration,
    MaxPool2dConfiguration,
    ShardingStrategy,
    TtConv2d,
    TtConvTranspose2d,
    TtMaxPool2d,
)
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d

FEATURES = 32
RELU = ttnn.UnaryWithParam(ttnn.UnaryOpType.RELU)
CONVOLUTION = {"kernel_size": (3, 3), "padding": (1, 1), "activation": RELU}


# --- 2. the reference model ---------------------------------------------------------------------------------------


def block(inputs: int, features: int) -> nn.Sequential:
    """The abbreviated blocks: as the first one."""
    return nn.Sequential(
        nn.Conv2d(inputs, features, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(features),
        nn.ReLU(inplace=True),
        nn.Conv2d(features, features, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(features),
        nn.ReLU(inplace=True),
    )


# reference/model.py
class UNet(nn.Module):
    def __init__(self, in_channels=3, out_channels=1, init_features=32):
        super(UNet, self).__init__()

        features = init_features
        # Encoder blocks with Conv+BN+ReLU
        self.encoder1 = nn.Sequential(
            nn.Conv2d(in_channels, features, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(features),
            nn.ReLU(inplace=True),
            nn.Conv2d(features, features, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(features),
            nn.ReLU(inplace=True),
        )
        self.pool1 = nn.MaxPool2d(kernel_size=2, stride=2)

        # ... more encoder/decoder blocks abbreviated ...
        for i in range(2, 5):
            setattr(self, f"encoder{i}", block(features * 2 ** (i - 2), features * 2 ** (i - 1)))
            setattr(self, f"pool{i}", nn.MaxPool2d(kernel_size=2, stride=2))
        self.bottleneck = block(features * 8, features * 16)
        for i in range(4, 0, -1):
            width = features * 2 ** (i - 1)
            setattr(self, f"upconv{i}", nn.ConvTranspose2d(2 * width, width, kernel_size=2, stride=2))
            setattr(self, f"decoder{i}", block(2 * width, width))
        self.conv = nn.Conv2d(features, out_channels, kernel_size=1)

    def forward(self, x):
        skips = []
        for i in range(1, 5):
            skips.append(getattr(self, f"encoder{i}")(x))
            x = getattr(self, f"pool{i}")(skips[-1])
        x = self.bottleneck(x)
        for i in range(4, 0, -1):
            x = torch.cat([getattr(self, f"upconv{i}")(x), skips.pop()], dim=1)
            x = getattr(self, f"decoder{i}")(x)
        return torch.sigmoid(self.conv(x))


def load_reference_model() -> UNet:
    torch.manual_seed(0)
    model = UNet().eval()
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.8, 1.2)
            nn.init.uniform_(module.running_var, 0.2, 0.5)
            nn.init.normal_(module.running_mean, std=0.1)
    return model


# --- 3. preprocessing ---------------------------------------------------------------------------------------------


# tt/common.py
def create_unet_preprocessor(device, mesh_mapper=None):
    def custom_preprocessor(model, name, ttnn_module_args):
        parameters = {}

        # Only process the top-level UNet model
        if isinstance(model, UNet):
            # Process each encoder block
            for i in range(1, 5):
                parameters[f"encoder{i}"] = {}

                # First conv in block - fold conv + batchnorm
                conv_weight, conv_bias = fold_batch_norm2d_into_conv2d(
                    getattr(model, f"encoder{i}")[0],  # Conv layer
                    getattr(model, f"encoder{i}")[1],  # BatchNorm layer
                )
                parameters[f"encoder{i}"][0] = {
                    "weight": ttnn.from_torch(conv_weight, dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper),
                    "bias": ttnn.from_torch(
                        torch.reshape(conv_bias, (1, 1, 1, -1)), dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper
                    ),
                }

                # Second conv in block
                conv_weight, conv_bias = fold_batch_norm2d_into_conv2d(
                    getattr(model, f"encoder{i}")[3], getattr(model, f"encoder{i}")[4]
                )
                parameters[f"encoder{i}"][1] = {
                    "weight": ttnn.from_torch(conv_weight, dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper),
                    "bias": ttnn.from_torch(
                        torch.reshape(conv_bias, (1, 1, 1, -1)), dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper
                    ),
                }

            # Process decoder blocks similarly (bottleneck, decoder4-1)
            for part in ("bottleneck", "decoder4", "decoder3", "decoder2", "decoder1"):
                layers = getattr(model, part)
                parameters[part] = {
                    at: converted(*fold_batch_norm2d_into_conv2d(layers[3 * at], layers[3 * at + 1]), mesh_mapper)
                    for at in (0, 1)
                }
            parameters["conv"] = converted(model.conv.weight, model.conv.bias, mesh_mapper)

            # Process upconv layers (no batch norm to fold)
            for i in range(4, 0, -1):
                parameters[f"upconv{i}"] = {
                    "weight": ttnn.from_torch(
                        getattr(model, f"upconv{i}").weight, dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper
                    ),
                    "bias": ttnn.from_torch(
                        torch.reshape(getattr(model, f"upconv{i}").bias, (1, 1, 1, -1)),
                        dtype=ttnn.bfloat16,
                        mesh_mapper=mesh_mapper,
                    ),
                }

        return parameters

    return custom_preprocessor


def converted(weight: Any, bias: Any, mesh_mapper: Any) -> dict[str, Any]:
    return {
        "weight": ttnn.from_torch(weight, dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper),
        "bias": ttnn.from_torch(bias.reshape(1, 1, 1, -1), dtype=ttnn.bfloat16, mesh_mapper=mesh_mapper),
    }


# --- 4. configurations --------------------------------------------------------------------------------------------


@dataclass
class TtUNetLayerConfigs:
    """The open name: every configuration under the name of its layer."""

    l1_input_memory_config: Any
    layers: dict[str, Any]
    encoder1_conv1: Any

    def __getattr__(self, name: str) -> Any:
        return self.layers[name]


# tt/config.py
class TtUNetConfigBuilder:
    def __init__(self, parameters: Dict, input_height: int, input_width: int, batch_size: int):
        self.parameters = parameters
        self.input_height = input_height
        self.input_width = input_width
        self.batch_size = batch_size
        self.in_channels, self.features = 3, FEATURES

    def build_configs(self) -> TtUNetLayerConfigs:
        return TtUNetLayerConfigs(
            # Input memory configuration
            l1_input_memory_config=self._create_input_memory_config(),
            # Encoder 1 configuration
            encoder1_conv1=self._create_conv_config_from_params(
                self.input_height,
                self.input_width,
                self.in_channels,
                self.features,
                self.parameters["encoder1"][0],  # Preprocessed weights
                sharding_strategy=HeightShardedStrategyConfiguration(
                    act_block_h_override=15 * 32 if self.input_height == 480 else 0
                ),
                enable_act_double_buffer=True,
                enable_weights_double_buffer=True,
                **CONVOLUTION,
            ),
            # ... encoder2-4, bottleneck, decoder, upconv configs ...
            layers=self._others(),
        )

    def _create_conv_config_from_params(
        self,
        input_height: int,
        input_width: int,
        in_channels: int,
        out_channels: int,
        parameters: Dict,  # Contains preprocessed weight and bias
        sharding_strategy: ShardingStrategy,
        activation_dtype=ttnn.bfloat16,
        weights_dtype=ttnn.bfloat8_b,
        **kwargs,
    ) -> Conv2dConfiguration:
        """Create Conv2d config with preprocessed weights"""
        return Conv2dConfiguration(
            input_height=input_height,
            input_width=input_width,
            in_channels=in_channels,
            out_channels=out_channels,
            batch_size=self.batch_size,
            weight=parameters["weight"],  # TT-NN tensor from preprocessing
            bias=parameters["bias"],  # TT-NN tensor from preprocessing
            sharding_strategy=sharding_strategy,
            activation_dtype=activation_dtype,
            weights_dtype=weights_dtype,
            **kwargs,
        )

    # --- what the text abbreviates

    def _create_input_memory_config(self) -> Any:
        """Pixels dealt out over the cores; channels padded to 16 where that fits."""
        cores, channels = (64, 3) if self.input_height == 480 else (32, 16)
        return ttnn.create_sharded_memory_config(
            (channels, self.input_height * self.input_width // cores),
            core_grid=ttnn.CoreGrid(x=8, y=cores // 8),
            strategy=ttnn.ShardStrategy.WIDTH,
            use_height_and_width_as_shard_shape=True,
        )

    def _others(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        height, width, inputs = self.input_height, self.input_width, self.in_channels
        for i in range(1, 5):
            features = self.features * 2 ** (i - 1)
            self._pair(made, f"encoder{i}", height, width, inputs, features)
            made[f"encoder{i}_pool"] = MaxPool2dConfiguration(
                height, width, features, self.batch_size, kernel_size=(2, 2), stride=(2, 2)
            )
            height, width, inputs = height // 2, width // 2, features
        self._pair(made, "bottleneck", height, width, inputs, 2 * inputs)
        for i in range(4, 0, -1):
            features = self.features * 2 ** (i - 1)
            made[f"upconv{i}"] = ConvTranspose2dConfiguration(
                height,
                width,
                2 * features,
                features,
                self.batch_size,
                (2, 2),
                stride=(2, 2),
                enable_weights_double_buffer=False,
                sharding_strategy=HeightShardedStrategyConfiguration(reshard_if_not_optimal=True),
                **self.parameters[f"upconv{i}"],
            )
            height, width = 2 * height, 2 * width
            self._pair(made, f"decoder{i}", height, width, 2 * features, features)
        made["final_conv"] = self._create_conv_config_from_params(
            height,
            width,
            self.features,
            1,
            self.parameters["conv"],
            HeightShardedStrategyConfiguration(),
            kernel_size=(1, 1),
            activation=ttnn.UnaryWithParam(ttnn.UnaryOpType.SIGMOID),
        )
        return made

    def _pair(self, made: dict[str, Any], name: str, height: int, width: int, inputs: int, outputs: int) -> None:
        for at, channels in ((0, inputs), (1, outputs)):
            made[f"{name}_conv{at + 1}"] = self._create_conv_config_from_params(
                height,
                width,
                channels,
                outputs,
                self.parameters[name][at],
                BlockShardedStrategyConfiguration(reshard_if_not_optimal=True)
                if name == "bottleneck"
                else HeightShardedStrategyConfiguration(
                    act_block_h_override=6 * 32 if height == 480 else 0, reshard_if_not_optimal=True
                ),
                **CONVOLUTION,
            )


def create_unet_configs_from_parameters(
    parameters: Any, input_height: int, input_width: int, batch_size: int
) -> TtUNetLayerConfigs:
    return TtUNetConfigBuilder(parameters, input_height, input_width, batch_size).build_configs()


# --- 5. the model -------------------------------------------------------------------------------------------------


def concatenate_skip_connection(upsampled, skip):
    # Ensure both tensors have same sharding
    if not skip.is_sharded():
        skip = ttnn.to_memory_config(skip, upsampled.memory_config())

    # Concatenate along channel dimension
    return ttnn.concat([upsampled, skip], dim=3)  # HWC format: dim=3 is channels


def transpose_conv2d(x: Any, layer: TtConvTranspose2d) -> Any:
    return layer(x)


# tt/model.py
class TtUNet:
    def __init__(self, configs: TtUNetLayerConfigs, device: ttnn.Device):
        self.device = device
        self.configs = configs

        # Create encoder blocks using configurations
        self.downblock1 = TtUNetEncoder(
            configs.encoder1_conv1,  # Conv config with weights
            configs.encoder1_conv2,  # Conv config with weights
            configs.encoder1_pool,  # Pool config
            device,
        )
        # ... encoder2-4, bottleneck, decoder blocks ...
        for i in range(2, 5):
            own = (getattr(configs, f"encoder{i}_{part}") for part in ("conv1", "conv2", "pool"))
            setattr(self, f"downblock{i}", TtUNetEncoder(*own, device))
        self.pairs = {
            name: [TtConv2d(getattr(configs, f"{name}_conv{at}"), device) for at in (1, 2)]
            for name in ("bottleneck", "decoder4", "decoder3", "decoder2", "decoder1")
        }
        for i in range(1, 5):
            setattr(self, f"upconv{i}_config", TtConvTranspose2d(getattr(configs, f"upconv{i}"), device))
        self.final_conv = TtConv2d(configs.final_conv, device)

    def __call__(self, input_tensor: ttnn.Tensor, deallocate_input_activation: bool = True) -> ttnn.Tensor:
        # Convert input format from CHW to HWC
        # TT-NN convolutions expect HWC format (Height-Width-Channel)
        # while PyTorch uses CHW format (Channel-Height-Width)
        input_tensor = ttnn.experimental.convert_to_hwc(input_tensor)

        # Encoder path with skip connections
        enc1, skip1 = self.downblock1(input_tensor)
        enc2, skip2 = self.downblock2(enc1)
        # ... enc3, enc4, bottleneck processing ...
        enc3, skip3 = self.downblock3(enc2)
        enc4, skip4 = self.downblock4(enc3)
        bottleneck = self._pair("bottleneck", enc4)

        # Decoder path with upsampling and concatenation
        dec4 = transpose_conv2d(bottleneck, self.upconv4_config)
        dec4 = concatenate_skip_connection(dec4, skip4)
        # ... dec3, dec2, dec1, final_conv processing ...
        dec4 = self._pair("decoder4", dec4)
        dec3 = concatenate_skip_connection(transpose_conv2d(dec4, self.upconv3_config), skip3)
        dec3 = self._pair("decoder3", dec3)
        dec2 = concatenate_skip_connection(transpose_conv2d(dec3, self.upconv2_config), skip2)
        dec2 = self._pair("decoder2", dec2)
        dec1 = concatenate_skip_connection(transpose_conv2d(dec2, self.upconv1_config), skip1)
        output = self.final_conv(self._pair("decoder1", dec1))

        # Convert output format back to CHW for PyTorch compatibility
        return ttnn.experimental.convert_to_chw(output, dtype=ttnn.bfloat16)

    def _pair(self, name: str, x: Any) -> Any:
        first, second = self.pairs[name]
        return second(first(x))


class TtUNetEncoder:
    def __init__(self, conv1, conv2, pool, device):
        self.conv1 = TtConv2d(conv1, device)  # Uses weights from config
        self.conv2 = TtConv2d(conv2, device)  # Uses weights from config
        self.pool = TtMaxPool2d(pool, device)

    def __call__(self, x):
        x = self.conv1(x)
        x = self.conv2(x)
        skip = ttnn.to_memory_config(x, ttnn.DRAM_MEMORY_CONFIG)  # Save for skip connection
        x = self.pool(x)
        return x, skip


def create_unet_from_configs(configs: TtUNetLayerConfigs, device: Any) -> TtUNet:
    return TtUNet(configs, device)
