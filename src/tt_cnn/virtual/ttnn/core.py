# SPDX-License-Identifier: Apache-2.0
"""`ttnn.core`: questions about tensors, and memory configs."""

from __future__ import annotations

import torch

from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.queues.queue import current_queue
from tt_cnn.virtual.tensors.conversion import TORCH_OF_DTYPE
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.ttnn.missing import resolver
from tt_cnn.virtual.types import BufferType as BufferType
from tt_cnn.virtual.types import CoreCoord, CoreRangeSet, DataType, StorageType
from tt_cnn.virtual.types import MemoryConfig as MemoryConfig
from tt_cnn.virtual.types import ShardOrientation as ShardOrientation
from tt_cnn.virtual.types import ShardStrategy as ShardStrategy
from tt_cnn.virtual.types import TensorMemoryLayout as TensorMemoryLayout
from tt_cnn.virtual.types import create_sharded_memory_config as create_sharded_memory_config
from tt_cnn.virtual.types import create_sharded_memory_config_ as create_sharded_memory_config_
from tt_cnn.virtual.types import num_cores_to_corerangeset as num_cores_to_corerangeset

DEVICE_STORAGE_TYPE = StorageType.DEVICE


def is_sharded(tensor: Tensor) -> bool:
    return tensor.is_sharded()


def get_memory_config(tensor: Tensor) -> MemoryConfig | None:
    """Where a device tensor lives; None of a host tensor."""
    return tensor.memory_config() if has_storage_type_of(tensor, StorageType.DEVICE) else None


def has_storage_type_of(tensor: Tensor, storage_type: StorageType) -> bool:
    return tensor.storage_type() is storage_type


def is_tensor_storage_on_device(tensor: Tensor) -> bool:
    return has_storage_type_of(tensor, StorageType.DEVICE)


def has_tile_padding(tensor: Tensor, *, dim: int | None = None) -> bool:
    """Whether the padded shape is larger than the shape, in one dimension or in the last two."""
    if len(tensor.shape) < 2:
        return False
    dims = (-1, -2) if dim is None else (dim,)
    return any(tensor.shape[d] != tensor.padded_shape[d] for d in dims)


def divup(a: int, b: int) -> int:
    return (a + b - 1) // b


def roundup(a: int, b: int) -> int:
    return b * divup(a, b)


def ttnn_dtype_to_torch_dtype(dtype: DataType) -> torch.dtype:
    fatal(dtype in TORCH_OF_DTYPE, f"{dtype.native} has no torch dtype")
    return TORCH_OF_DTYPE[dtype]


def get_current_command_queue_id_for_thread() -> int:
    return current_queue.get()


def element_size(dtype: DataType) -> int:
    fatal(not dtype.is_block_float and dtype is not DataType.INVALID, f"{dtype.native} has no size of one element")
    return dtype.element_bytes


def tile_size(dtype: DataType) -> int:
    fatal(dtype is not DataType.INVALID, "DataType::INVALID has no tile")
    return dtype.tile_bytes


def corerange_to_cores(
    core_range_set: CoreRangeSet, max_cores: int | None = None, row_wise: bool = False
) -> list[CoreCoord]:
    """The cores one by one, along columns or along rows."""
    return list(core_range_set.cores(row_wise))[:max_cores]


__getattr__ = resolver("core.")
