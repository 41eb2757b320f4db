"""The names of TT-NN, on the virtual card. `from tt_cnn import ttnn` gives this module where no real card is."""

from __future__ import annotations

from typing import Any

from tt_cnn.virtual import ops
from tt_cnn.virtual.conversion import from_torch, to_torch
from tt_cnn.virtual.device import MeshDevice
from tt_cnn.virtual.mesh import (
    ConcatMesh2dToTensor,
    ConcatMeshToTensor,
    MeshToTensor,
    ReplicateTensorToMesh,
    ShardTensor2dMesh,
    ShardTensorToMesh,
    TensorToMesh,
)
from tt_cnn.virtual.opening import *  # noqa: F403
from tt_cnn.virtual.synchronization import *  # noqa: F403
from tt_cnn.virtual.tensor import Tensor
from tt_cnn.virtual.trace import MeshTraceId
from tt_cnn.virtual.transfers import (
    allocate_tensor_on_device,
    allocate_tensor_on_host,
    copy_device_to_host_tensor,
    copy_host_to_device_tensor,
    deallocate,
    from_device,
    to_device,
)
from tt_cnn.virtual.types import *  # noqa: F403
from tt_cnn.virtual.types import DataType, Layout

Device = MeshDevice
bfloat16 = DataType.BFLOAT16
float32 = DataType.FLOAT32
uint32 = DataType.UINT32
bfloat8_b = DataType.BFLOAT8_B
bfloat4_b = DataType.BFLOAT4_B
uint8 = DataType.UINT8
uint16 = DataType.UINT16
int32 = DataType.INT32
int8 = DataType.INT8
ROW_MAJOR_LAYOUT = Layout.ROW_MAJOR
TILE_LAYOUT = Layout.TILE

ops.load_all()


def __getattr__(name: str) -> Any:
    if name in ops.OPERATIONS:
        return ops.OPERATIONS[name]
    raise AttributeError(f"module 'ttnn' has no attribute {name!r}")
