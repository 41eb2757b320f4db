# SPDX-License-Identifier: Apache-2.0
"""Layers made from torch's modules and a table of settings by their names.

    layers = LayerFactory(reference, device, batch_size, LAYERS)
    self.conv1 = layers.conv2d("conv1", reference.conv1, reference.bn1, nn.ReLU())

What a layer computes is torch's: weights, windows, batch norms (folded) and activations. How it runs is what the table
says under its name: the size of its input (`input_size`), and any setting of its configuration.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from tt_cnn import ttnn
from tt_cnn.builder import (
    AddConfiguration,
    AttentionConfiguration,
    AvgPool2dConfiguration,
    ChannelShuffleConfiguration,
    ConcatConfiguration,
    Conv2dConfiguration,
    ConvTranspose2dConfiguration,
    GlobalAvgPool2dConfiguration,
    GroupNormConfiguration,
    LayerNormConfiguration,
    LinearConfiguration,
    MaxPool2dConfiguration,
    PixelShuffleConfiguration,
    PixelUnshuffleConfiguration,
    PlacementConfiguration,
    SqueezeExciteConfiguration,
    TtAdd,
    TtAttention,
    TtAvgPool2d,
    TtChannelShuffle,
    TtConcat,
    TtConv2d,
    TtConvTranspose2d,
    TtGlobalAvgPool2d,
    TtGroupNorm,
    TtLayerNorm,
    TtLinear,
    TtMaxPool2d,
    TtPixelShuffle,
    TtPixelUnshuffle,
    TtPlacement,
    TtSqueezeExcite,
    TtUpsample,
    UpsampleConfiguration,
)
from tt_cnn.builder.activation import TtActivation
from tt_cnn.builder.activation_configuration import ActivationConfiguration
from tt_cnn.builder.adaptive_avg_pool2d import AdaptiveAvgPool2dConfiguration, TtAdaptiveAvgPool2d
from tt_cnn.builder.batch_norm2d import TtBatchNorm2d
from tt_cnn.builder.batch_norm2d_configuration import BatchNorm2dConfiguration
from tt_cnn.builder.function import FunctionConfiguration, TtFunction
from tt_cnn.builder.grouped_softmax import GroupedSoftmaxConfiguration, TtGroupedSoftmax
from tt_cnn.builder.host import HostConfiguration, TtHost
from tt_cnn.builder.multiply import TtMultiply
from tt_cnn.builder.multiply_configuration import MultiplyConfiguration
from tt_cnn.builder.overrides import with_settings
from tt_cnn.builder.plane_resize import PlaneResizeConfiguration, TtPlaneResize
from tt_cnn.builder.prelu import TtPReLU
from tt_cnn.builder.prelu_configuration import PReLUConfiguration
from tt_cnn.builder.rearrange import RearrangeConfiguration, TtRearrange
from tt_cnn.builder.resize import ResizeConfiguration, TtResize
from tt_cnn.builder.slice import SliceConfiguration, TtSlice
from tt_cnn.builder.torch_activations import activation_from_torch
from tt_cnn.builder.weights import to_host_tensors
from tt_cnn.models.picture import PictureConfiguration, TtPicture
from tt_cnn.models.tt_model import weights_mapper
from tt_cnn.preprocessing import fold_batch_norm2d_into_conv2d

TILE = 32
WORD = 8
"""Values of bfloat16 in 16 bytes."""
BFLOAT16 = 2
PIXEL_CHANNELS = 8
"""Of an image's pixel, zeros counted."""
MOST_WAITING = 128 * 1024
"""Bytes on a core that a waiting image may take, the zeros counted."""


class LayerFactory:
    """Makes layers; `settings` is the table, which names may be missing from."""

    def __init__(
        self, reference: nn.Module, device: Any, batch_size: int, settings: Mapping[str, Mapping[str, Any]]
    ) -> None:
        self.reference, self.device, self.batch_size = reference, device, batch_size
        self.table = settings
        self.mesh_mapper = weights_mapper(device)

    def picture(self, name: str) -> TtPicture:
        """The model's input: images in planes to pixels, in the way that is quicker where the lines are whole words."""
        size, settings = self._sized(name)
        pixels = self.batch_size * size[0] * size[1]
        settings.setdefault("form", "pad" if pixels % TILE or size[1] % WORD == 0 else "hwc")
        if settings["form"] == "pad":
            self._place_planes(size, settings)
        settings.setdefault("cores", self._even_cores(pixels // TILE))
        return TtPicture(PictureConfiguration(*size, self.batch_size, **settings), self.device, name)

    def _place_planes(self, size: tuple[int, int], settings: dict[str, Any]) -> None:
        """Where planes with zeros below them wait, and the pixels in whole tiles."""
        channels = settings.setdefault("padded_channels", PIXEL_CHANNELS)
        lines = self.batch_size * channels * size[0]
        pixels = self.batch_size * size[0] * size[1]
        cores = settings.setdefault("cores", self._even_cores(lines))
        room = pixels * channels * BFLOAT16 // cores.num_cores()
        settings.setdefault("waits_padded", room <= MOST_WAITING)
        settings.setdefault("reallocate", True)
        if pixels // cores.num_cores() % TILE and pixels % TILE == 0:
            settings.setdefault("memory_config", _in_height_shards(self._even_cores(pixels // TILE), pixels, channels))

    def _even_cores(self, parts: int) -> Any:
        """The most cores that so many parts can be distributed to evenly."""
        grid = self.device.compute_with_storage_grid_size()
        most = max(count for count in range(1, grid.x * grid.y + 1) if parts % count == 0)
        return ttnn.num_cores_to_corerangeset(most, ttnn.CoreCoord(grid.x, grid.y), True)

    def conv2d(
        self,
        name: str,
        conv: nn.Conv2d,
        norm: nn.Module | None = None,
        activation: nn.Module | None = None,
        outputs: tuple[int, ...] | None = None,
    ) -> TtConv2d:
        """`outputs` are the channels to compute: from the first number to the second, of each group of as many as a
        third number says."""
        size, settings = self._sized(name)
        shape = Conv2dConfiguration.shape_of_torch(conv)
        if outputs is not None:
            shape["out_channels"] = len(_chosen(outputs, conv.out_channels))
        weights = self._weights(conv, norm, activation, outputs)
        return TtConv2d(
            Conv2dConfiguration(*size, batch_size=self.batch_size, **{**weights, **shape, **settings}),
            self.device,
            name,
        )

    def conv_transpose2d(
        self, name: str, conv: nn.ConvTranspose2d, norm: nn.Module | None = None, activation: nn.Module | None = None
    ) -> TtConvTranspose2d:
        size, settings = self._sized(name)
        shape = ConvTranspose2dConfiguration.shape_of_torch(conv)
        return TtConvTranspose2d(
            ConvTranspose2dConfiguration(
                *size, batch_size=self.batch_size, **{**self._weights(conv, norm, activation), **shape, **settings}
            ),
            self.device,
            name,
        )

    def _weights(self, conv: Any, norm: Any, activation: Any, outputs: tuple[int, ...] | None = None) -> dict[str, Any]:
        values = (conv.weight, conv.bias) if norm is None else fold_batch_norm2d_into_conv2d(conv, norm)
        if outputs is not None:
            channels = _chosen(outputs, conv.out_channels)
            values = (values[0][channels], None if values[1] is None else values[1].reshape(-1)[channels])
        weight, bias = to_host_tensors(values[0], values[1], self.mesh_mapper)
        return {"weight": weight, "bias": bias, "activation": activation_from_torch(activation)}

    def linear(self, name: str, linear: Any, activation: nn.Module | None = None, groups: int = 1) -> TtLinear:
        """`linear` may be a 1x1 convolution, too; it works on each of so many groups of neighbouring channels."""
        weight = linear.weight.detach().reshape(linear.weight.shape[0], -1).T.contiguous()
        weight = torch.block_diag(*[weight] * groups)
        inputs, outputs = weight.shape
        shift = linear.bias if linear.bias is None else linear.bias.detach().repeat(groups)
        given, bias = to_host_tensors(weight, shift, self.mesh_mapper)
        own = {"activation": activation_from_torch(activation), **self._settings(name)}
        return TtLinear(LinearConfiguration(inputs, outputs, given, bias, **own), self.device, name)

    def max_pool2d(self, name: str, pool: nn.MaxPool2d) -> TtMaxPool2d:
        return self._image_layer(TtMaxPool2d, MaxPool2dConfiguration, name, pool)

    def avg_pool2d(self, name: str, pool: nn.AvgPool2d) -> TtAvgPool2d:
        return self._image_layer(TtAvgPool2d, AvgPool2dConfiguration, name, pool)

    def global_avg_pool2d(self, name: str) -> TtGlobalAvgPool2d:
        return self._image_layer(TtGlobalAvgPool2d, GlobalAvgPool2dConfiguration, name, nn.AdaptiveAvgPool2d(1))

    def adaptive_avg_pool2d(self, name: str, pool: nn.AdaptiveAvgPool2d) -> TtAdaptiveAvgPool2d:
        """Of windows of several sizes; those of one size are an `avg_pool2d`."""
        return self._image_layer(TtAdaptiveAvgPool2d, AdaptiveAvgPool2dConfiguration, name, pool)

    def resize(self, name: str, resize: nn.Upsample) -> TtResize:
        """To sizes that are no whole multiples, or with corners that stay corners; else `upsample` is quicker."""
        return self._image_layer(TtResize, ResizeConfiguration, name, resize)

    def plane_resize(self, name: str, resize: nn.Upsample) -> TtPlaneResize:
        """Of few channels, to (N, C, H, W)."""
        return self._image_layer(TtPlaneResize, PlaneResizeConfiguration, name, resize)

    def upsample(self, name: str, upsample: nn.Upsample) -> TtUpsample:
        return self._image_layer(TtUpsample, UpsampleConfiguration, name, upsample)

    def _image_layer(self, layer: Any, kind: Any, name: str, torch_layer: Any) -> Any:
        size, settings = self._sized(name)
        channels = settings.pop("channels")
        return layer(kind.from_torch(torch_layer, *size, self.batch_size, channels, **settings), self.device, name)

    def add(self, name: str, activation: nn.Module | None = None) -> TtAdd:
        own = {"activation": activation_from_torch(activation), **self._settings(name)}
        return TtAdd(AddConfiguration(**own), self.device, name)

    def multiply(self, name: str) -> TtMultiply:
        own = {"batch_size": self.batch_size, **self._settings(name)}
        return TtMultiply(MultiplyConfiguration(**own), self.device, name)

    def concat(self, name: str) -> TtConcat:
        return TtConcat(ConcatConfiguration(**self._settings(name)), self.device, name)

    def placement(self, name: str) -> TtPlacement:
        return TtPlacement(PlacementConfiguration(**self._settings(name)), self.device, name)

    def activation(self, name: str, activation: nn.Module) -> TtActivation:
        return TtActivation(ActivationConfiguration.from_torch(activation, **self._settings(name)), self.device, name)

    def prelu(self, name: str, prelu: nn.PReLU) -> TtPReLU:
        return self._of_torch(TtPReLU, PReLUConfiguration, name, prelu)

    def batch_norm2d(self, name: str, norm: nn.BatchNorm2d, activation: nn.Module | None = None) -> TtBatchNorm2d:
        own = {"activation": activation_from_torch(activation), **self._settings(name)}
        configuration = BatchNorm2dConfiguration.from_torch(norm, self.mesh_mapper, **own)
        return TtBatchNorm2d(configuration, self.device, name)

    def layer_norm(self, name: str, norm: nn.LayerNorm) -> TtLayerNorm:
        return self._of_torch(TtLayerNorm, LayerNormConfiguration, name, norm)

    def group_norm(self, name: str, norm: nn.GroupNorm, activation: nn.Module | None = None) -> TtGroupNorm:
        own = {"activation": activation_from_torch(activation), **self._settings(name)}
        configuration = GroupNormConfiguration.from_torch(norm, self.batch_size, self.mesh_mapper, **own)
        return TtGroupNorm(configuration, self.device, name)

    def _of_torch(self, layer: Any, kind: Any, name: str, torch_layer: Any) -> Any:
        return layer(kind.from_torch(torch_layer, self.mesh_mapper, **self._settings(name)), self.device, name)

    def grouped_softmax(self, name: str, groups: int, size: int) -> TtGroupedSoftmax:
        """Over each of several groups of neighbouring channels."""
        return TtGroupedSoftmax(GroupedSoftmaxConfiguration(groups, size, **self._settings(name)), self.device, name)

    def attention(
        self,
        name: str,
        heads: int,
        head_dim: int,
        sequences: int,
        bias: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        **settings: Any,
    ) -> TtAttention:
        """`sequences` are images, or all windows of all images."""
        own = {**settings, **self._settings(name)}
        configuration = AttentionConfiguration.from_torch(
            heads, head_dim, sequences, bias, mask, self.mesh_mapper, **own
        )
        return TtAttention(configuration, self.device, name)

    def squeeze_excite(
        self, name: str, reduce: Any, expand: Any, activation: nn.Module | None, gate: nn.Module | None
    ) -> TtSqueezeExcite:
        """Both are linear layers, or 1x1 convolutions of images of one pixel; each has settings of its own."""
        made = SqueezeExciteConfiguration.from_torch(
            reduce, expand, activation, gate, self.batch_size, mesh_mapper=self.mesh_mapper, **self._settings(name)
        )
        products = {
            part: with_settings(getattr(made, part), self._settings(f"{name}.{part}")) for part in ("reduce", "expand")
        }
        return TtSqueezeExcite(replace(made, **products), self.device, name)

    def channel_shuffle(self, name: str, shuffle: nn.ChannelShuffle) -> TtChannelShuffle:
        own = self._settings(name)
        configuration = ChannelShuffleConfiguration.from_torch(shuffle, own.pop("channels"), **own)
        return TtChannelShuffle(configuration, self.device, name)

    def pixel_shuffle(self, name: str, shuffle: nn.PixelShuffle) -> TtPixelShuffle:
        return self._image_layer(TtPixelShuffle, PixelShuffleConfiguration, name, shuffle)

    def pixel_unshuffle(self, name: str, shuffle: nn.PixelUnshuffle) -> TtPixelUnshuffle:
        return self._image_layer(TtPixelUnshuffle, PixelUnshuffleConfiguration, name, shuffle)

    def rearrange(self, name: str, shape: Any, order: Any, output_shape: Any) -> TtRearrange:
        configuration = RearrangeConfiguration(shape, order, output_shape, **self._settings(name))
        return TtRearrange(configuration, self.device, name)

    def view(self, name: str, output_shape: Any) -> TtRearrange:
        """The same values in another shape."""
        return self.rearrange(name, output_shape, tuple(range(len(output_shape))), output_shape)

    def slice(self, name: str, dim: int, start: int, end: int, step: int = 1, shape: Any = None) -> TtSlice:
        configuration = SliceConfiguration(dim, start, end, step, shape, **self._settings(name))
        return TtSlice(configuration, self.device, name)

    def function(self, name: str, function: str, **keywords: Any) -> TtFunction:
        """An op of TT-NN by its name."""
        own = {"keywords": tuple(keywords.items()), **self._settings(name)}
        return TtFunction(FunctionConfiguration(function, **own), self.device, name)

    def registered(self, name: str, module: nn.Module, maker: str) -> Any:
        """A layer of the user's: `maker` is `package.module:function`, which gets the factory, the module, the name."""
        where, _, function = maker.partition(":")
        return getattr(importlib.import_module(where), function)(self, module, name)

    def on_host(self, name: str, function: Callable[..., torch.Tensor]) -> TtHost:
        """What the card has no op for, in torch."""
        return TtHost(HostConfiguration(**self._settings(name)), self.device, name, function=function)

    def constant(self, values: torch.Tensor, shape: tuple[int, ...]) -> Any:
        """A tensor of the model on the card, in tiles."""
        return ttnn.from_torch(
            values.detach().reshape(shape),
            dtype=ttnn.bfloat16,
            layout=ttnn.TILE_LAYOUT,
            device=self.device,
            mesh_mapper=self.mesh_mapper,
        )

    def has(self, name: str) -> bool:
        """Whether the table has a layer of this name, or layers inside a block of this name."""
        return any(each == name or each.startswith(f"{name}.") for each in self.table)

    def _settings(self, name: str) -> dict[str, Any]:
        return dict(self.table.get(name, {}))

    def _sized(self, name: str) -> tuple[tuple[int, int], dict[str, Any]]:
        settings = self._settings(name)
        if "input_size" not in settings:
            raise ValueError(f"the settings of {name!r} have no input_size; it must be (height, width) of its input.")
        return settings.pop("input_size"), settings


def _chosen(outputs: tuple[int, ...], channels: int) -> list[int]:
    start, end, *of = outputs
    group = of[0] if of else channels
    return [first + each for first in range(0, channels, group) for each in range(start, end)]


def _in_height_shards(cores: Any, rows: int, width: int) -> Any:
    spec = ttnn.ShardSpec(cores, [rows // cores.num_cores(), width], ttnn.ShardOrientation.ROW_MAJOR)
    return ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, spec)
