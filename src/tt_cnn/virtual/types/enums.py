# SPDX-License-Identifier: Apache-2.0
"""The enumerations of TT-NN, with its names and integer values (0.81.1)."""

from __future__ import annotations

import enum


class NativeEnum(enum.Enum):
    """An enumeration that prints as TT-NN's do: `DataType.BFLOAT16`, not `<DataType.BFLOAT16: 0>`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"

    __str__ = __repr__
    __hash__ = object.__hash__  # members are one of a kind; plans hash them by the thousand

    def __int__(self) -> int:
        return int(self.value)

    @property
    def native(self) -> str:
        """The spelling of TT-NN's messages: `DataType::BFLOAT16`."""
        return f"{type(self).__name__}::{self.name}"


class DataType(NativeEnum):
    BFLOAT16 = 0
    FLOAT32 = 1
    UINT32 = 2
    BFLOAT8_B = 3
    BFLOAT4_B = 4
    UINT8 = 5
    UINT16 = 6
    INT32 = 7
    FP8_E4M3 = 8
    INT8 = 9
    INVALID = 10

    @property
    def is_block_float(self) -> bool:
        return self in (DataType.BFLOAT8_B, DataType.BFLOAT4_B)

    @property
    def is_float(self) -> bool:
        return self in (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B, DataType.BFLOAT4_B)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element outside block formats, which share exponents and exist only as tiles."""
        return _ELEMENT_BYTES[self]

    @property
    def tile_bytes(self) -> int:
        """Bytes of one 32x32 tile; block formats add an exponent byte for each 16 values."""
        return _TILE_BYTES.get(self) or 1024 * _ELEMENT_BYTES[self]


_ELEMENT_BYTES = {
    DataType.BFLOAT16: 2,
    DataType.FLOAT32: 4,
    DataType.UINT32: 4,
    DataType.UINT8: 1,
    DataType.UINT16: 2,
    DataType.INT32: 4,
    DataType.FP8_E4M3: 1,
    DataType.INT8: 1,
}
_TILE_BYTES = {DataType.BFLOAT8_B: 1024 + 64, DataType.BFLOAT4_B: 512 + 64}


class Layout(NativeEnum):
    ROW_MAJOR = 0
    TILE = 1
    INVALID = 2


class TensorMemoryLayout(NativeEnum):
    INTERLEAVED = 0
    HEIGHT_SHARDED = 2
    WIDTH_SHARDED = 3
    BLOCK_SHARDED = 4
    ND_SHARDED = 5


HEIGHT = TensorMemoryLayout.HEIGHT_SHARDED
WIDTH = TensorMemoryLayout.WIDTH_SHARDED
BLOCK = TensorMemoryLayout.BLOCK_SHARDED


class BufferType(NativeEnum):
    DRAM = 0
    L1 = 1
    SYSTEM_MEMORY = 2
    L1_SMALL = 3
    TRACE = 4


class StorageType(NativeEnum):
    HOST = 0
    DEVICE = 1


class ShardOrientation(NativeEnum):
    ROW_MAJOR = 0
    COL_MAJOR = 1


class ShardDistributionStrategy(NativeEnum):
    ROUND_ROBIN_1D = 0
    GRID_2D = 1
    CONTIGUOUS_1D = 2


class ShardStrategy(enum.Enum):
    """A Python enumeration in TT-NN too, so it prints as one."""

    HEIGHT = 1
    WIDTH = 2
    BLOCK = 3


class MathFidelity(NativeEnum):
    LoFi = 0
    HiFi2 = 2
    HiFi3 = 3
    HiFi4 = 4
    Invalid = 255


class PaddingMode(NativeEnum):
    Zeros = 0
    Replicate = 1


class DumpTensorMode(NativeEnum):
    DISTRIBUTED_GATHER = 0
    LOCAL = 1


class GeluVariant(NativeEnum):
    Accurate = 0
    FastLut = 1
    Tanh = 2


class SigmoidMode(NativeEnum):
    FastApproximate = 0
    AccurateWithFastExp = 1
    Accurate = 2


class EmbeddingsType(NativeEnum):
    GENERIC = 0
    PADDED = 1
    BINARY = 2


class TileReshapeMapMode(NativeEnum):
    CACHE = 0
    RECREATE = 1


class ThrottleLevel(NativeEnum):
    NO_THROTTLE = 0
    LEVEL_1 = 1
    LEVEL_2 = 2
    LEVEL_3 = 3
    LEVEL_4 = 4
    LEVEL_5 = 5


class Arch(NativeEnum):
    WORMHOLE_B0 = 2
    BLACKHOLE = 3
    QUASAR = 4
