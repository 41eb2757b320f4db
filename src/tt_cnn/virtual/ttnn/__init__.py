# SPDX-License-Identifier: Apache-2.0
"""The names of TT-NN, on the virtual card. `from tt_cnn import ttnn` gives this module where no real card is.

Ops are not listed here: a name that is registered in `ops.OPERATIONS` is there. What the real library has beyond that
is a `MissingName`, which names it.
"""

import sys
from types import FunctionType as _FunctionType
from typing import Any as _Any

from tt_cnn.virtual import ops
from tt_cnn.virtual.arguments.typed import typed as _typed
from tt_cnn.virtual.arguments.typed import typed_names as _typed_names
from tt_cnn.virtual.devices.opening import get_arch_name as get_arch_name
from tt_cnn.virtual.devices.synchronization import begin_trace_capture as begin_trace_capture
from tt_cnn.virtual.devices.synchronization import command_queue as command_queue
from tt_cnn.virtual.devices.synchronization import end_trace_capture as end_trace_capture
from tt_cnn.virtual.devices.synchronization import event_synchronize as event_synchronize
from tt_cnn.virtual.devices.synchronization import execute_trace as execute_trace
from tt_cnn.virtual.devices.synchronization import record_event as record_event
from tt_cnn.virtual.devices.synchronization import release_trace as release_trace
from tt_cnn.virtual.devices.synchronization import wait_for_event as wait_for_event
from tt_cnn.virtual.ops.conv2d.config import Conv1dConfig as Conv1dConfig
from tt_cnn.virtual.ops.conv2d.config import Conv2dConfig as Conv2dConfig
from tt_cnn.virtual.ops.conv2d.config import Conv2dDRAMSliceHeight as Conv2dDRAMSliceHeight
from tt_cnn.virtual.ops.conv2d.config import Conv2dDRAMSliceWidth as Conv2dDRAMSliceWidth
from tt_cnn.virtual.ops.conv2d.config import Conv2dL1Full as Conv2dL1Full
from tt_cnn.virtual.ops.conv2d.config import Conv2dL1FullSliceConfig as Conv2dL1FullSliceConfig
from tt_cnn.virtual.ops.conv2d.config import Conv2dSliceConfig as Conv2dSliceConfig
from tt_cnn.virtual.ops.conv2d.config import Op2DDRAMSliceHeight as Op2DDRAMSliceHeight
from tt_cnn.virtual.ops.conv2d.config import Op2DDRAMSliceWidth as Op2DDRAMSliceWidth
from tt_cnn.virtual.ops.conv2d.config import Op2DL1FullSliceConfig as Op2DL1FullSliceConfig
from tt_cnn.virtual.ops.conv2d.config import Op2DSliceConfig as Op2DSliceConfig
from tt_cnn.virtual.ops.experimental.attention_config import SDPAProgramConfig as SDPAProgramConfig
from tt_cnn.virtual.ops.layout.transfers import allocate_tensor_on_device as allocate_tensor_on_device
from tt_cnn.virtual.ops.layout.transfers import allocate_tensor_on_host as allocate_tensor_on_host
from tt_cnn.virtual.ops.layout.transfers import copy_device_to_host_tensor as copy_device_to_host_tensor
from tt_cnn.virtual.ops.layout.transfers import copy_host_to_device_tensor as copy_host_to_device_tensor
from tt_cnn.virtual.ops.layout.transfers import deallocate as deallocate
from tt_cnn.virtual.ops.layout.transfers import from_device as from_device
from tt_cnn.virtual.ops.layout.transfers import to_device as to_device
from tt_cnn.virtual.ops.matmul.configs import (
    MatmulMultiCoreReuseMultiCast1DProgramConfig as MatmulMultiCoreReuseMultiCast1DProgramConfig,
)
from tt_cnn.virtual.ops.matmul.configs import (
    MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig as MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig,
)
from tt_cnn.virtual.ops.matmul.configs import (
    MatmulMultiCoreReuseMultiCastProgramConfig as MatmulMultiCoreReuseMultiCastProgramConfig,
)
from tt_cnn.virtual.ops.matmul.configs import MatmulMultiCoreReuseProgramConfig as MatmulMultiCoreReuseProgramConfig
from tt_cnn.virtual.ops.normalization.configs import LayerNormDefaultProgramConfig as LayerNormDefaultProgramConfig
from tt_cnn.virtual.ops.normalization.configs import (
    LayerNormShardedMultiCoreProgramConfig as LayerNormShardedMultiCoreProgramConfig,
)
from tt_cnn.virtual.ops.normalization.configs import SoftmaxDefaultProgramConfig as SoftmaxDefaultProgramConfig
from tt_cnn.virtual.ops.normalization.configs import (
    SoftmaxShardedMultiCoreProgramConfig as SoftmaxShardedMultiCoreProgramConfig,
)
from tt_cnn.virtual.ops.normalization.group_norm_masks import (
    create_group_norm_input_mask as create_group_norm_input_mask,
)
from tt_cnn.virtual.ops.normalization.group_norm_masks import (
    create_group_norm_weight_bias_rm as create_group_norm_weight_bias_rm,
)
from tt_cnn.virtual.ops.pool.grid_points import prepare_grid_sample_grid as prepare_grid_sample_grid
from tt_cnn.virtual.tensors.conversion import from_torch as from_torch
from tt_cnn.virtual.tensors.conversion import to_torch as to_torch
from tt_cnn.virtual.tensors.files.tensorbin import dump_tensor as dump_tensor
from tt_cnn.virtual.tensors.files.tensorbin import load_tensor as load_tensor
from tt_cnn.virtual.tensors.parts import combine_device_tensors as combine_device_tensors
from tt_cnn.virtual.tensors.parts import get_device_tensors as get_device_tensors
from tt_cnn.virtual.tensors.tensor import OPERATORS as _OPERATORS
from tt_cnn.virtual.tracing.trace import MeshTraceId as MeshTraceId
from tt_cnn.virtual.ttnn import _ttnn as _ttnn
from tt_cnn.virtual.ttnn import cluster as cluster
from tt_cnn.virtual.ttnn import core as core
from tt_cnn.virtual.ttnn import device as device
from tt_cnn.virtual.ttnn import distributed as distributed
from tt_cnn.virtual.ttnn import experimental as experimental
from tt_cnn.virtual.ttnn import graph as graph
from tt_cnn.virtual.ttnn import transformer as transformer
from tt_cnn.virtual.ttnn import types as types
from tt_cnn.virtual.ttnn.config import CONFIG as CONFIG
from tt_cnn.virtual.ttnn.config import Config as Config
from tt_cnn.virtual.ttnn.config import manage_config as manage_config
from tt_cnn.virtual.ttnn.core import DEVICE_STORAGE_TYPE as DEVICE_STORAGE_TYPE
from tt_cnn.virtual.ttnn.core import BufferType as BufferType
from tt_cnn.virtual.ttnn.core import MemoryConfig as MemoryConfig
from tt_cnn.virtual.ttnn.core import ShardOrientation as ShardOrientation
from tt_cnn.virtual.ttnn.core import ShardStrategy as ShardStrategy
from tt_cnn.virtual.ttnn.core import TensorMemoryLayout as TensorMemoryLayout
from tt_cnn.virtual.ttnn.core import corerange_to_cores as corerange_to_cores
from tt_cnn.virtual.ttnn.core import create_sharded_memory_config as create_sharded_memory_config
from tt_cnn.virtual.ttnn.core import create_sharded_memory_config_ as create_sharded_memory_config_
from tt_cnn.virtual.ttnn.core import element_size as element_size
from tt_cnn.virtual.ttnn.core import get_current_command_queue_id_for_thread as get_current_command_queue_id_for_thread
from tt_cnn.virtual.ttnn.core import get_memory_config as get_memory_config
from tt_cnn.virtual.ttnn.core import has_storage_type_of as has_storage_type_of
from tt_cnn.virtual.ttnn.core import has_tile_padding as has_tile_padding
from tt_cnn.virtual.ttnn.core import is_sharded as is_sharded
from tt_cnn.virtual.ttnn.core import is_tensor_storage_on_device as is_tensor_storage_on_device
from tt_cnn.virtual.ttnn.core import num_cores_to_corerangeset as num_cores_to_corerangeset
from tt_cnn.virtual.ttnn.core import tile_size as tile_size
from tt_cnn.virtual.ttnn.core import ttnn_dtype_to_torch_dtype as ttnn_dtype_to_torch_dtype
from tt_cnn.virtual.ttnn.device import Arch as Arch
from tt_cnn.virtual.ttnn.device import CloseDevice as CloseDevice
from tt_cnn.virtual.ttnn.device import CloseDevices as CloseDevices
from tt_cnn.virtual.ttnn.device import CreateDevice as CreateDevice
from tt_cnn.virtual.ttnn.device import CreateDevices as CreateDevices
from tt_cnn.virtual.ttnn.device import Device as Device
from tt_cnn.virtual.ttnn.device import DispatchCoreAxis as DispatchCoreAxis
from tt_cnn.virtual.ttnn.device import DispatchCoreConfig as DispatchCoreConfig
from tt_cnn.virtual.ttnn.device import DispatchCoreType as DispatchCoreType
from tt_cnn.virtual.ttnn.device import GetDefaultDevice as GetDefaultDevice
from tt_cnn.virtual.ttnn.device import GetNumAvailableDevices as GetNumAvailableDevices
from tt_cnn.virtual.ttnn.device import GetNumPCIeDevices as GetNumPCIeDevices
from tt_cnn.virtual.ttnn.device import GetPCIeDeviceID as GetPCIeDeviceID
from tt_cnn.virtual.ttnn.device import MeshDevice as MeshDevice
from tt_cnn.virtual.ttnn.device import ReadDeviceProfiler as ReadDeviceProfiler
from tt_cnn.virtual.ttnn.device import SetDefaultDevice as SetDefaultDevice
from tt_cnn.virtual.ttnn.device import close_device as close_device
from tt_cnn.virtual.ttnn.device import dump_device_memory_state as dump_device_memory_state
from tt_cnn.virtual.ttnn.device import get_allocator_base_address as get_allocator_base_address
from tt_cnn.virtual.ttnn.device import get_dram_alignment as get_dram_alignment
from tt_cnn.virtual.ttnn.device import get_l1_alignment as get_l1_alignment
from tt_cnn.virtual.ttnn.device import get_memory_view as get_memory_view
from tt_cnn.virtual.ttnn.device import get_pcie_device_ids as get_pcie_device_ids
from tt_cnn.virtual.ttnn.device import init_device_compute_kernel_config as init_device_compute_kernel_config
from tt_cnn.virtual.ttnn.device import is_trace_capture_active as is_trace_capture_active
from tt_cnn.virtual.ttnn.device import manage_device as manage_device
from tt_cnn.virtual.ttnn.device import open_device as open_device
from tt_cnn.virtual.ttnn.device import synchronize_device as synchronize_device
from tt_cnn.virtual.ttnn.distributed import ConcatMesh2dToTensor as ConcatMesh2dToTensor
from tt_cnn.virtual.ttnn.distributed import ConcatMeshToTensor as ConcatMeshToTensor
from tt_cnn.virtual.ttnn.distributed import MeshComposerConfig as MeshComposerConfig
from tt_cnn.virtual.ttnn.distributed import MeshMapperConfig as MeshMapperConfig
from tt_cnn.virtual.ttnn.distributed import MeshToTensor as MeshToTensor
from tt_cnn.virtual.ttnn.distributed import PlacementReplicate as PlacementReplicate
from tt_cnn.virtual.ttnn.distributed import PlacementShard as PlacementShard
from tt_cnn.virtual.ttnn.distributed import ReplicateTensorToMesh as ReplicateTensorToMesh
from tt_cnn.virtual.ttnn.distributed import ShardTensor2dMesh as ShardTensor2dMesh
from tt_cnn.virtual.ttnn.distributed import ShardTensorToMesh as ShardTensorToMesh
from tt_cnn.virtual.ttnn.distributed import TensorToMesh as TensorToMesh
from tt_cnn.virtual.ttnn.distributed import aggregate_tensor as aggregate_tensor
from tt_cnn.virtual.ttnn.distributed import close_mesh_device as close_mesh_device
from tt_cnn.virtual.ttnn.distributed import concat_mesh_to_tensor_composer as concat_mesh_to_tensor_composer
from tt_cnn.virtual.ttnn.distributed import create_mesh_composer as create_mesh_composer
from tt_cnn.virtual.ttnn.distributed import create_mesh_mapper as create_mesh_mapper
from tt_cnn.virtual.ttnn.distributed import distribute_tensor as distribute_tensor
from tt_cnn.virtual.ttnn.distributed import from_host_shards as from_host_shards
from tt_cnn.virtual.ttnn.distributed import get_device_ids as get_device_ids
from tt_cnn.virtual.ttnn.distributed import get_num_devices as get_num_devices
from tt_cnn.virtual.ttnn.distributed import open_mesh_device as open_mesh_device
from tt_cnn.virtual.ttnn.distributed import replicate_tensor_to_mesh_mapper as replicate_tensor_to_mesh_mapper
from tt_cnn.virtual.ttnn.distributed import shard_tensor_to_mesh_mapper as shard_tensor_to_mesh_mapper
from tt_cnn.virtual.ttnn.distributed import using_distributed_env as using_distributed_env
from tt_cnn.virtual.ttnn.missing import VERSION, resolver
from tt_cnn.virtual.ttnn.older import older_name as _older_name
from tt_cnn.virtual.ttnn.types import DRAM_MEMORY_CONFIG as DRAM_MEMORY_CONFIG
from tt_cnn.virtual.ttnn.types import L1_BLOCK_SHARDED_MEMORY_CONFIG as L1_BLOCK_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.ttnn.types import L1_HEIGHT_SHARDED_MEMORY_CONFIG as L1_HEIGHT_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.ttnn.types import L1_MEMORY_CONFIG as L1_MEMORY_CONFIG
from tt_cnn.virtual.ttnn.types import L1_WIDTH_SHARDED_MEMORY_CONFIG as L1_WIDTH_SHARDED_MEMORY_CONFIG
from tt_cnn.virtual.ttnn.types import ROW_MAJOR_LAYOUT as ROW_MAJOR_LAYOUT
from tt_cnn.virtual.ttnn.types import TILE_LAYOUT as TILE_LAYOUT
from tt_cnn.virtual.ttnn.types import TILE_SIZE as TILE_SIZE
from tt_cnn.virtual.ttnn.types import CoreCoord as CoreCoord
from tt_cnn.virtual.ttnn.types import CoreGrid as CoreGrid
from tt_cnn.virtual.ttnn.types import CoreRange as CoreRange
from tt_cnn.virtual.ttnn.types import CoreRangeSet as CoreRangeSet
from tt_cnn.virtual.ttnn.types import DataType as DataType
from tt_cnn.virtual.ttnn.types import DeviceComputeKernelConfig as DeviceComputeKernelConfig
from tt_cnn.virtual.ttnn.types import DumpTensorMode as DumpTensorMode
from tt_cnn.virtual.ttnn.types import EmbeddingsType as EmbeddingsType
from tt_cnn.virtual.ttnn.types import GeluVariant as GeluVariant
from tt_cnn.virtual.ttnn.types import Layout as Layout
from tt_cnn.virtual.ttnn.types import MathFidelity as MathFidelity
from tt_cnn.virtual.ttnn.types import MeshEvent as MeshEvent
from tt_cnn.virtual.ttnn.types import MeshShape as MeshShape
from tt_cnn.virtual.ttnn.types import PaddingMode as PaddingMode
from tt_cnn.virtual.ttnn.types import Shape as Shape
from tt_cnn.virtual.ttnn.types import ShardDistributionStrategy as ShardDistributionStrategy
from tt_cnn.virtual.ttnn.types import ShardSpec as ShardSpec
from tt_cnn.virtual.ttnn.types import SigmoidMode as SigmoidMode
from tt_cnn.virtual.ttnn.types import StorageType as StorageType
from tt_cnn.virtual.ttnn.types import Tensor as Tensor
from tt_cnn.virtual.ttnn.types import TensorSpec as TensorSpec
from tt_cnn.virtual.ttnn.types import ThrottleLevel as ThrottleLevel
from tt_cnn.virtual.ttnn.types import Tile as Tile
from tt_cnn.virtual.ttnn.types import TileReshapeMapMode as TileReshapeMapMode
from tt_cnn.virtual.ttnn.types import UnaryOpType as UnaryOpType
from tt_cnn.virtual.ttnn.types import UnaryWithParam as UnaryWithParam
from tt_cnn.virtual.ttnn.types import WormholeComputeKernelConfig as WormholeComputeKernelConfig
from tt_cnn.virtual.ttnn.types import bfloat4_b as bfloat4_b
from tt_cnn.virtual.ttnn.types import bfloat8_b as bfloat8_b
from tt_cnn.virtual.ttnn.types import bfloat16 as bfloat16
from tt_cnn.virtual.ttnn.types import float32 as float32
from tt_cnn.virtual.ttnn.types import fp8_e4m3 as fp8_e4m3
from tt_cnn.virtual.ttnn.types import int8 as int8
from tt_cnn.virtual.ttnn.types import int32 as int32
from tt_cnn.virtual.ttnn.types import uint8 as uint8
from tt_cnn.virtual.ttnn.types import uint16 as uint16
from tt_cnn.virtual.ttnn.types import uint32 as uint32

__version__ = VERSION
ttnn = sys.modules[__name__]
"""Some code says `ttnn.ttnn`."""

ops.load_all()

from tt_cnn.virtual.references import attach_golden_function as attach_golden_function  # noqa: E402
from tt_cnn.virtual.references import get_golden_function as get_golden_function  # noqa: E402

for _module in (core, device, distributed, types, ttnn):
    _typed_names(_module)
for _name, _function in _OPERATORS.items():  # behind the methods of tensors
    if isinstance(_function, _FunctionType):
        _OPERATORS[_name] = _typed(_function)

_resolve = resolver("")


def __getattr__(name: str) -> _Any:
    return _older_name(name) or _resolve(name)


def __dir__() -> list[str]:
    """What is here, ops included."""
    return sorted({*globals(), *(name for name in ops.OPERATIONS if "." not in name)})
