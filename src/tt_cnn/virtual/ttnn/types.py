# SPDX-License-Identifier: Apache-2.0
"""`ttnn.types`: the value types and constants."""

from tt_cnn.virtual.devices.synchronization import MeshEvent as MeshEvent
from tt_cnn.virtual.tensors.tensor import Tensor as Tensor
from tt_cnn.virtual.ttnn.missing import resolver
from tt_cnn.virtual.types import DRAM_MEMORY_CONFIG as DRAM_MEMORY_CONFIG
from tt_cnn.virtual.types import L1_BLOCK_SHARDED_MEMORY_CONFIG as L1_BLOCK_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.types import L1_HEIGHT_SHARDED_MEMORY_CONFIG as L1_HEIGHT_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.types import L1_MEMORY_CONFIG as L1_MEMORY_CONFIG
from tt_cnn.virtual.types import L1_WIDTH_SHARDED_MEMORY_CONFIG as L1_WIDTH_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.types import TILE_SIZE as TILE_SIZE
from tt_cnn.virtual.types import Arch as Arch
from tt_cnn.virtual.types import BufferType as BufferType
from tt_cnn.virtual.types import CoreCoord as CoreCoord
from tt_cnn.virtual.types import CoreGrid as CoreGrid
from tt_cnn.virtual.types import CoreRange as CoreRange
from tt_cnn.virtual.types import CoreRangeSet as CoreRangeSet
from tt_cnn.virtual.types import DataType as DataType
from tt_cnn.virtual.types import DeviceComputeKernelConfig as DeviceComputeKernelConfig
from tt_cnn.virtual.types import DumpTensorMode as DumpTensorMode
from tt_cnn.virtual.types import EmbeddingsType as EmbeddingsType
from tt_cnn.virtual.types import GeluVariant as GeluVariant
from tt_cnn.virtual.types import Layout as Layout
from tt_cnn.virtual.types import MathFidelity as MathFidelity
from tt_cnn.virtual.types import MemoryConfig as MemoryConfig
from tt_cnn.virtual.types import MeshShape as MeshShape
from tt_cnn.virtual.types import PaddingMode as PaddingMode
from tt_cnn.virtual.types import Shape as Shape
from tt_cnn.virtual.types import ShardDistributionStrategy as ShardDistributionStrategy
from tt_cnn.virtual.types import ShardOrientation as ShardOrientation
from tt_cnn.virtual.types import ShardSpec as ShardSpec
from tt_cnn.virtual.types import ShardStrategy as ShardStrategy
from tt_cnn.virtual.types import SigmoidMode as SigmoidMode
from tt_cnn.virtual.types import StorageType as StorageType
from tt_cnn.virtual.types import TensorMemoryLayout as TensorMemoryLayout
from tt_cnn.virtual.types import TensorSpec as TensorSpec
from tt_cnn.virtual.types import ThrottleLevel as ThrottleLevel
from tt_cnn.virtual.types import Tile as Tile
from tt_cnn.virtual.types import TileReshapeMapMode as TileReshapeMapMode
from tt_cnn.virtual.types import UnaryOpType as UnaryOpType
from tt_cnn.virtual.types import UnaryWithParam as UnaryWithParam
from tt_cnn.virtual.types import WormholeComputeKernelConfig as WormholeComputeKernelConfig

BlackholeComputeKernelConfig = WormholeComputeKernelConfig
"""The same class in TT-NN 0.81.1 too."""

bfloat16 = DataType.BFLOAT16
float32 = DataType.FLOAT32
uint32 = DataType.UINT32
bfloat8_b = DataType.BFLOAT8_B
bfloat4_b = DataType.BFLOAT4_B
uint8 = DataType.UINT8
uint16 = DataType.UINT16
int32 = DataType.INT32
int8 = DataType.INT8
fp8_e4m3 = DataType.FP8_E4M3
ROW_MAJOR_LAYOUT = Layout.ROW_MAJOR
TILE_LAYOUT = Layout.TILE
DEVICE_STORAGE_TYPE = StorageType.DEVICE

__getattr__ = resolver("types.")
