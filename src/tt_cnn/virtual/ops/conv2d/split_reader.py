# SPDX-License-Identifier: Apache-2.0
"""Whether two processors share the reading of activations: TT-NN decides by measured rates of the network on chip.

The rules and figures are those of `is_split_reader_viable` and of the tables beside it
(conv2d_op_program_factory_common.cpp). It compares the time until the first product: with one reader the gathering and
then the tilizing, while the weights come; with two half the gathering, then the tilizing while the weights come.
"""

from __future__ import annotations

from typing import NamedTuple

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.conv2d.blocks import CoreWork
from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT
from tt_cnn.virtual.types.enums import Arch, DataType
from tt_cnn.virtual.types.geometry import TILE_SIZE

_SMALLEST_TRANSFER = 16


class _Rate(NamedTuple):
    """GB/s by the size of a transfer: linear from the smallest transfer to `full_at` bytes, then constant."""

    full_at: int
    smallest: float
    peak: float

    def __call__(self, size: int) -> float:
        size = min(max(size, _SMALLEST_TRANSFER), self.full_at)
        slope = (self.peak - self.smallest) / (self.full_at - _SMALLEST_TRANSFER)
        return self.smallest + slope * (size - _SMALLEST_TRANSFER)


class _Rates(NamedTuple):
    local: _Rate
    dram: _Rate
    multicast: _Rate
    clock_ghz: float


_RATES = {
    Arch.WORMHOLE_B0: _Rates(_Rate(1024, 0.868, 27.84), _Rate(2048, 0.436, 28.411), _Rate(65536, 0.318, 25.345), 1.0),
    Arch.BLACKHOLE: _Rates(_Rate(4096, 1.124, 80.48), _Rate(2048, 0.671, 80.885), _Rate(65536, 0.182, 57.677), 1.35),
}
_F32, _BF16, _BF8 = DataType.FLOAT32, DataType.BFLOAT16, DataType.BFLOAT8_B
_TILIZE_CYCLES = {
    Arch.WORMHOLE_B0: {
        (_F32, _F32): (107, 128),
        (_F32, _BF16): (74, 74),
        (_F32, _BF8): (74, 70),
        (_BF16, _F32): (92, 117),
        (_BF16, _BF16): (61, 68),
        (_BF16, _BF8): (40, 43),
    },
    Arch.BLACKHOLE: {
        (_F32, _F32): (132, 132),
        (_F32, _BF16): (132, 80),
        (_F32, _BF8): (132, 77),
        (_BF16, _F32): (105, 128),
        (_BF16, _BF16): (72, 72),
        (_BF16, _BF8): (60, 60),
    },
}
"""Cycles to tilize a tile by input and output format, without and with float32 accumulation
(`get_tilize_cycles_per_tile`). Other formats are refused there."""


def splits_reader(work: CoreWork) -> bool:
    layout, blocks, settings = work.layout, work.blocks, work.settings
    if layout not in (HEIGHT, BLOCK) or work.depthwise_1d or blocks.act_h <= 1:
        return False
    if settings.force_split_reader is not None:
        return settings.force_split_reader
    if layout is BLOCK or settings.enable_activation_reuse:
        return True
    rates, formats, width = _RATES[work.arch], work.formats, work.kernel[1]
    stick = formats.halo.element_bytes * work.channels
    at_once = stick * (width if work.dilation[1] == 1 else 1)
    read = rates.clock_ghz * stick * blocks.act_h * TILE_SIZE * width / rates.local(at_once)
    weights = formats.weights.tile_bytes * blocks.out_w * blocks.act_w
    fetch = rates.clock_ghz * weights * (1 / rates.dram(formats.weights.tile_bytes) + 1 / rates.multicast(weights))
    cycles = _TILIZE_CYCLES[work.arch].get((formats.halo, formats.output))
    fatal(cycles is not None, "Unsupported output data type when calculating tilize cycles")
    assert cycles is not None
    tilize = cycles[work.compute.fp32_accumulation] * blocks.act_w * blocks.act_h
    return read / 2 + max(fetch, tilize) < max(read + tilize, fetch)
