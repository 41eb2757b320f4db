# SPDX-License-Identifier: Apache-2.0
"""The first step of a model: images in planes become pixels with their channels side by side, on the card.

There are two ways. `hwc`: TT-NN's `convert_to_hwc`, of planes that are cut into strips of pixels. `pad`: planes of
zeros are put below the image's, and a permutation puts the channels last. Which is quicker depends on the image and
the card; the host gives the image in the form that the way takes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from tt_cnn import ttnn
from tt_cnn.builder import Configuration, Layer
from tt_cnn.builder.rules import Rule, flags, instance, wholes
from tt_cnn.models.tt_model import TtModel
from tt_cnn.pipeline import get_memory_config_for_persistent_dram_tensor

PICTURE_CHANNELS = 3
FORMS = ("hwc", "pad")


@dataclass(frozen=True, eq=False)
class PictureConfiguration(Configuration):
    input_height: int
    input_width: int
    batch_size: int
    form: str
    cores: Any
    """Those that the image waits on, each with as much of it; a CoreRangeSet."""
    padded_channels: int = 8
    """Channels of a pixel with form `pad`, zeros counted; `convert_to_hwc` makes 8."""
    waits_padded: bool = False
    """Whether the image waits, with form `pad`, in shards that have room for the planes of zeros: nothing has to be
    moved for them then, but the shards take more of L1."""
    memory_config: Any = None
    """Where the pixels are put; None: where the conversion leaves them. Interleaved, they have no channels of zeros."""
    reallocate: bool = False
    """Whether pixels that are left there are moved up to close holes in L1."""

    rules = (
        *wholes("input_height", "input_width", "batch_size", "padded_channels"),
        Rule("form", lambda c: c.form in FORMS, " or ".join(map(repr, FORMS))),
        instance("cores", ttnn.CoreRangeSet),
        Rule("padded_channels", lambda c: c.padded_channels >= PICTURE_CHANNELS, "at least the image's"),
        *flags("waits_padded", "reallocate"),
        instance("memory_config", None, ttnn.MemoryConfig),
    )

    @property
    def output_size(self) -> tuple[int, int]:
        return self.input_height, self.input_width

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Of a chip's images on the card."""
        if self.form == "hwc":
            return 1, self.batch_size, PICTURE_CHANNELS, self.input_height * self.input_width
        return self.batch_size, PICTURE_CHANNELS, self.input_height, self.input_width


class TtPicture(Layer):
    """The image stays with its owner."""

    configuration: PictureConfiguration
    configured_by = PictureConfiguration

    @property
    def l1_memory_config(self) -> Any:
        """Where the image waits for the model."""
        config = self.configuration
        if config.form == "pad":
            return self._lines(config.padded_channels if config.waits_padded else PICTURE_CHANNELS)
        pixels = config.input_height * config.input_width
        shape = [config.batch_size * PICTURE_CHANNELS, _div_up(pixels, config.cores.num_cores())]
        return self._in_l1(ttnn.TensorMemoryLayout.WIDTH_SHARDED, shape)

    @property
    def dram_memory_config(self) -> Any:
        """Where a pipeline keeps it."""
        layouts = ttnn.TensorMemoryLayout
        layout = layouts.WIDTH_SHARDED if self.configuration.form == "hwc" else layouts.HEIGHT_SHARDED
        return get_memory_config_for_persistent_dram_tensor(
            self.configuration.shape, layout, self.device.dram_grid_size()
        )

    def to_host(self, images: torch.Tensor, mesh_mapper: Any = None) -> Any:
        """(N, 3, H, W) as the host tensor that the form takes; on a mesh the chips' images one after the other."""
        planes = images.reshape(-1, *self.configuration.shape[1:])
        return ttnn.from_torch(planes, dtype=ttnn.bfloat16, layout=ttnn.ROW_MAJOR_LAYOUT, mesh_mapper=mesh_mapper)

    def run(self, x: Any) -> Any:
        config = self.configuration
        pixels = ttnn.experimental.convert_to_hwc(x) if config.form == "hwc" else self._padded_and_turned(x)
        wanted = config.memory_config
        if wanted is not None and pixels.memory_config() != wanted:
            moved = ttnn.to_memory_config(pixels, wanted)
            ttnn.deallocate(pixels)
            pixels = moved
        elif config.reallocate:
            pixels = ttnn.reallocate(pixels)
        count = config.batch_size * config.input_height * config.input_width
        flat = ttnn.reshape(pixels, (1, 1, count, pixels.shape[-1])) if config.form == "pad" else pixels
        return flat if flat.is_sharded() else _without_zeros(flat)

    def _padded_and_turned(self, x: Any) -> Any:
        config = self.configuration
        shards = self._lines(config.padded_channels)
        planes = x if x.memory_config() == shards else ttnn.to_memory_config(x, shards)
        padded = ttnn.pad(planes, [(0, 0), (0, config.padded_channels - PICTURE_CHANNELS), (0, 0), (0, 0)], 0.0)
        if planes is not x:
            ttnn.deallocate(planes)
        turned = ttnn.permute(padded, (0, 2, 3, 1))
        ttnn.deallocate(padded)
        return turned

    def _lines(self, planes: int) -> Any:
        """Lines of so many planes distributed to the cores."""
        config = self.configuration
        lines = _div_up(config.batch_size * planes * config.input_height, config.cores.num_cores())
        return self._in_l1(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, [lines, config.input_width])

    def _in_l1(self, layout: Any, shape: list[int]) -> Any:
        spec = ttnn.ShardSpec(self.configuration.cores, shape, ttnn.ShardOrientation.ROW_MAJOR)
        return ttnn.MemoryConfig(layout, ttnn.BufferType.L1, spec)


class PictureModel(TtModel):
    """A model whose input is as its layer `picture` takes it."""

    picture: TtPicture

    @property
    def l1_input_memory_config(self) -> Any:
        return self.picture.l1_memory_config

    @property
    def dram_input_memory_config(self) -> Any:
        return self.picture.dram_memory_config

    def to_host_input(self, images: torch.Tensor) -> Any:
        return self.picture.to_host(images, self.input_mapper)


def _without_zeros(pixels: Any) -> Any:
    """Convolutions overlook channels of zeros in shards, but not in interleaved memory."""
    own = ttnn.slice(pixels, [0, 0, 0, 0], [*tuple(pixels.shape)[:3], PICTURE_CHANNELS])
    ttnn.deallocate(pixels)
    return own


def _div_up(a: int, b: int) -> int:
    return -(-a // b)
