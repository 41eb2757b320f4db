# SPDX-License-Identifier: Apache-2.0
"""How a core works through its part of a convolution, block by block.

The rules are those of `determine_per_core_conv_block_config` (conv2d_utils.cpp).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.sliding_window.halo import ComputeKey
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT, ParallelConfig, largest_divisor
from tt_cnn.virtual.ops.sliding_window.window import Pair
from tt_cnn.virtual.types.enums import Arch, DataType, MathFidelity, TensorMemoryLayout
from tt_cnn.virtual.types.geometry import TILE_SIZE, div_up, round_up
from tt_cnn.virtual.types.kept_hash import kept_hash
from tt_cnn.virtual.types.memory_config import MemoryConfig

# fmt: off
_SUBBLOCKS = (
    (2, 4), (4, 2), (1, 8), (8, 1), (1, 7), (7, 1), (2, 3), (3, 2), (1, 6), (6, 1),
    (1, 5), (5, 1), (2, 2), (1, 4), (4, 1), (1, 3), (3, 1), (1, 2), (2, 1), (1, 1),
)
# fmt: on


@kept_hash
@dataclass(frozen=True)
class Compute:
    """The compute configuration. Sizes depend on accumulation alone; precision decides a step's time, and makes another
    program of it."""

    fp32_accumulation: bool = False
    packer_l1: bool = False
    fidelity: MathFidelity = MathFidelity.HiFi4
    approx: bool = True

    @property
    def of_halo(self) -> ComputeKey:
        """The same as a halo's program carries it."""
        return self.fidelity, self.approx, self.fp32_accumulation, self.packer_l1


@dataclass(frozen=True)
class Blocks:
    """Tiles of a core's output, of an activation block, and of an output sub-block."""

    out_h: int
    out_w: int
    act_h: int
    act_w: int
    sub_h: int
    sub_w: int


@lru_cache(maxsize=4096)
def largest_subblock(height: int, width: int, fp32_accumulation: bool) -> tuple[int, int]:
    for h, w in _SUBBLOCKS:
        if fp32_accumulation and h * w > 4:
            continue
        if height % h == 0 and width % w == 0 and (w == width or h == 1):
            return h, w
    return 1, 1


def blocks_of(
    output: MemoryConfig,
    inputs: ParallelConfig,
    padded_channels: int,
    kernel: tuple[int, int],
    output_width: int,
    settings: Settings,
    fp32_accumulation: bool,
    depthwise_1d: bool,
) -> Blocks:
    assert output.shard_spec is not None
    height, width = output.shard_spec.shape
    out_h, out_w = div_up(height, TILE_SIZE), div_up(width, TILE_SIZE)
    override = settings.act_block_h_override
    fatal(
        override % TILE_SIZE == 0,
        f"Config Error: act_block_h_override ({override}) must be a multiple of 32 (tile height).",
    )
    act_h = largest_divisor(height // TILE_SIZE, override // TILE_SIZE) if override else out_h
    if inputs.layout is HEIGHT and settings.enable_activation_reuse:
        image_tiles = div_up(output_width, TILE_SIZE)
        fatal(
            act_h > image_tiles,
            f"Activation reuse needs act block h ({act_h}) to be bigger than output image width in tiles "
            f"({image_tiles}) for the optimization to give boost",
        )
    if depthwise_1d and inputs.layout is HEIGHT and takes_one_tap(padded_channels):
        kernel = (1, 1)
    act_w = _block_width(inputs, padded_channels, kernel, settings) // TILE_SIZE
    sub_h, sub_w = largest_subblock(act_h, out_w, fp32_accumulation)
    return Blocks(out_h, out_w, act_h, act_w, sub_h, sub_w)


def takes_one_tap(padded_channels: int) -> bool:
    """A 1D depthwise convolution reads one tap of its kernel at a time where channels are no whole tiles."""
    return padded_channels % TILE_SIZE != 0


def _block_width(inputs: ParallelConfig, channels: int, kernel: tuple[int, int], settings: Settings) -> int:
    height, width = kernel
    if inputs.layout is HEIGHT:
        return round_up(channels * width * (height if settings.enable_activation_reuse else 1), TILE_SIZE)
    if inputs.layout is BLOCK:
        rows = height if settings.full_inner_dim else 1
        return round_up(channels // inputs.cores_c * width * rows, TILE_SIZE)
    fatal(settings.act_block_w_div > 0, "act_block_w_div is 0; it must be 1 or more.")  # the library ends here
    return channels * height * width // (inputs.grid.num_cores() * settings.act_block_w_div)


class Formats(NamedTuple):
    """Of a convolution's input, weights and output."""

    input: DataType
    weights: DataType
    output: DataType

    @property
    def halo(self) -> DataType:
        """Of the windows' sticks, as readers gather them."""
        return DataType.FLOAT32 if self.input is DataType.FLOAT32 else DataType.BFLOAT16


class CoreWork(NamedTuple):
    """What a core does in a convolution: its readers and its buffers follow from this."""

    arch: Arch
    layout: TensorMemoryLayout
    blocks: Blocks
    kernel: Pair
    dilation: Pair
    output_width: int
    channels: int
    """Of a stick, padded."""
    matrix: Pair
    """Rows and columns of the prepared weights."""
    formats: Formats
    bias: bool
    compute: Compute
    settings: Settings
    depthwise_1d: bool = False
    no_multicast: bool = False
    """One core reads all activations."""
