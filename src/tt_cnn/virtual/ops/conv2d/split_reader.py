"""Whether two processors share the reading of activations: TT-NN decides by measured rates of the network on chip."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from tt_cnn.virtual.ops.sliding_window.parallel import BLOCK, HEIGHT
from tt_cnn.virtual.types.enums import Arch, DataType, TensorMemoryLayout
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
"""Cycles to tilize a tile by input and output format, without and with float32 accumulation."""


@lru_cache(maxsize=16384)
def splits_reader(
    arch: Arch,
    layout: TensorMemoryLayout,
    depthwise_1d: bool,
    block_h: int,
    block_w: int,
    weight_tiles: int,
    weights_dtype: DataType,
    input_channels: int,
    kernel_width: int,
    dilation_width: int,
    input_dtype: DataType,
    output_dtype: DataType,
    fp32_accumulation: bool,
    activation_reuse: bool,
    forced: bool | None,
) -> bool:
    if layout not in (HEIGHT, BLOCK) or depthwise_1d or block_h <= 1:
        return False
    if forced is not None:
        return forced
    if layout is BLOCK or activation_reuse:
        return True
    rates = _RATES[arch]
    halo = _F32 if input_dtype is _F32 else _BF16
    element = halo.element_bytes
    at_once = element * input_channels * (kernel_width if dilation_width == 1 else 1)
    read = rates.clock_ghz * element * block_h * TILE_SIZE * input_channels * kernel_width / rates.local(at_once)
    weights = weights_dtype.tile_bytes * weight_tiles
    fetch = rates.clock_ghz * weights * (1 / rates.dram(weights_dtype.tile_bytes) + 1 / rates.multicast(weights))
    tilize = _TILIZE_CYCLES[arch].get((halo, output_dtype), (61, 68))[fp32_accumulation] * block_w * block_h
    return read / 2 + max(fetch, tilize) < max(read + tilize, fetch)
