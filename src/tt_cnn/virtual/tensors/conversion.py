# SPDX-License-Identifier: Apache-2.0
"""torch to TT-NN on the host and back: rounding to the format, padding to the layout, distributing over a mesh."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from tt_cnn.virtual.arguments.refusals import refuse_unfollowed
from tt_cnn.virtual.engines import in_host_memory
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.numerics.formats import host_round, to_integer
from tt_cnn.virtual.tensors.mesh import MeshToTensor, TensorToMesh
from tt_cnn.virtual.tensors.storage import CARRIER, HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor, provides
from tt_cnn.virtual.threads.calls import followed
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

DTYPE_OF_TORCH = {
    torch.float32: DataType.FLOAT32,
    torch.bfloat16: DataType.BFLOAT16,
    torch.float16: DataType.BFLOAT16,
    torch.int64: DataType.UINT32,
    torch.int32: DataType.INT32,
    torch.int16: DataType.UINT16,
    torch.uint8: DataType.UINT8,
    torch.bool: DataType.UINT8,
    torch.int8: DataType.INT8,
    torch.uint16: DataType.UINT16,
    torch.uint32: DataType.UINT32,
}
TORCH_OF_DTYPE = {
    DataType.FLOAT32: torch.float32,
    DataType.BFLOAT16: torch.bfloat16,
    DataType.BFLOAT8_B: torch.float32,
    DataType.BFLOAT4_B: torch.float32,
    DataType.UINT32: torch.uint32,
    DataType.INT32: torch.int32,
    DataType.UINT16: torch.uint16,
    DataType.UINT8: torch.uint8,
    DataType.INT8: torch.int8,
}


def pad_to(values: torch.Tensor, shape: Sequence[int] | Shape, fill: float = 0) -> torch.Tensor:
    """Values in the top corner of a larger shape; a lower rank gets ones in front, a higher one loses them."""
    if tuple(values.shape) == tuple(shape):
        return values
    values = values.reshape((1,) * (len(shape) - values.dim()) + tuple(values.shape)[-len(shape) or values.dim() :])
    pads = [
        p for have, want in zip(reversed(values.shape), reversed(tuple(shape)), strict=True) for p in (0, want - have)
    ]
    return torch.nn.functional.pad(values, pads, value=fill)


def unpad(values: torch.Tensor, shape: Sequence[int] | Shape) -> torch.Tensor:
    """The logical values out of padded ones."""
    shape = tuple(shape)
    if tuple(values.shape) == shape:
        return values
    extra = values.dim() - len(shape)
    cut = values[(0,) * extra + tuple(slice(0, d) for d in shape)] if extra >= 0 else values
    return cut.reshape(shape)


def as_stored(value: float, dtype: DataType) -> float:
    """A number as the host's C++ converts it: large ones are infinite as float32; as an integer, what does not fit 32
    bits is the smallest int32 (asked of TT-NN 0.81.1: full with 1e30, inf and nan)."""
    if dtype.is_float:
        return float(torch.tensor(float(value), dtype=torch.float64).to(torch.float32))
    limit = 2**31 if dtype is DataType.INT32 else 2**32
    if math.isfinite(value) and -limit <= value < limit:
        return int(value)
    return -(2**31) if dtype is DataType.INT32 else 0


def host_convert(values: torch.Tensor, dtype: DataType) -> torch.Tensor:
    """Values as the host stores them in a dtype, in its carrier."""
    if dtype.is_float:
        return host_round(values.to(torch.float32), dtype)
    return to_integer(values, dtype)


def host_tensor(
    values: list[torch.Tensor], dtype: DataType, layout: Layout, memory_config: MemoryConfig, pad_value: float = 0
) -> Tensor:
    """A host tensor of logical torch values, converted to the dtype and padded to the layout."""
    spec = Spec(Shape(values[0].shape), dtype, layout, memory_config)
    padded = [_own(host_convert(pad_to(v, spec.padded_shape, pad_value), dtype).to(CARRIER[dtype]), v) for v in values]
    return Tensor.on_host(spec, HostStorage(padded))


def constant_host_tensor(spec: Spec, value: float) -> Tensor:
    """A host tensor of one value, which is converted once. Zeros are memory that the system clears when it is read,
    which numpy asks for and torch does not."""
    if spec.dtype.is_block_float:  # padding shares exponents with values
        values = torch.full(tuple(spec.shape), value, dtype=torch.float32)
        return host_tensor([values], spec.dtype, spec.layout, spec.memory_config)
    kind = torch.float32 if spec.dtype.is_float else torch.int64
    one = host_convert(torch.full((), value, dtype=kind), spec.dtype).to(CARRIER[spec.dtype])
    if one == 0 and not torch.signbit(one):
        values = torch.from_numpy(np.zeros(tuple(spec.padded_shape), str(one.dtype).removeprefix("torch.")))
    else:
        values = pad_to(one.expand(tuple(spec.shape)), spec.padded_shape).contiguous()
    return Tensor.on_host(spec, HostStorage([in_host_memory(values)]))


def _own(converted: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    """Values of our own: the user may change the source before the card has read it."""
    converted = in_host_memory(converted.contiguous())
    shared = converted.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
    return converted.clone() if shared and converted.numel() else converted


@followed("ttnn.from_torch")
@followed("ttnn::convert_python_tensor_to_tt_tensor", returns=True)
def from_torch(
    tensor: Any,
    dtype: DataType | None = None,
    *,
    spec: Spec | None = None,
    tile: Any = None,
    pad_value: float | None = None,
    layout: Layout | None = None,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    mesh_mapper: TensorToMesh | None = None,
    cq_id: int | None = None,
    preserve_nan_values: bool = False,
    col_tilize: bool = False,
    enable_bfloat_opt: bool = False,
) -> Tensor | None:
    """A TT-NN tensor of a torch tensor (or NumPy array): on the host, or on a device with `device`."""
    if tensor is None:
        return None
    source = _torch_tensor(tensor)
    if col_tilize:
        source = _for_columns(source, dtype, spec, layout)
    if spec is not None:
        for name, value in (("dtype", dtype), ("layout", layout), ("memory_config", memory_config), ("tile", tile)):
            fatal(value is None, f"ttnn.from_torch: {name} must be None when spec is specified")
        fatal(
            spec.shape == tuple(source.shape),
            f"ttnn.from_torch: spec shape {spec.shape} must be the same as tensor shape {tuple(source.shape)}",
        )
        dtype, layout, memory_config = spec.dtype, spec.layout, spec.memory_config
    if dtype is None:
        if source.dtype not in DTYPE_OF_TORCH:
            raise CardError(
                f"from_torch: torch dtype {source.dtype} has no TT-NN dtype of its own.", "  pass dtype=ttnn.float32"
            )
        dtype = DTYPE_OF_TORCH[source.dtype]
    if not isinstance(dtype, DataType) or dtype not in CARRIER:
        raise TypeError(f"dtype is {dtype!r}; it must be one of {', '.join(d.name.lower() for d in CARRIER)}")
    if layout is None:
        layout = Layout.TILE if dtype.is_block_float else Layout.ROW_MAJOR
    if not isinstance(layout, Layout):
        raise TypeError(f"layout is {layout!r}; it must be ttnn.ROW_MAJOR_LAYOUT or ttnn.TILE_LAYOUT")
    fatal(
        not dtype.is_block_float or layout is Layout.TILE,
        "Layout must be Layout::TILE for bfloat8_b or bfloat4_b!",
    )
    if device is not None and dtype.is_block_float:  # elsewhere there is nothing to convert on a device
        refuse_unfollowed("from_torch", enable_bfloat_opt=enable_bfloat_opt)
    config = memory_config or DRAM_MEMORY_CONFIG
    fatal(
        not config.is_sharded() or config.shard_spec is not None,
        "ttnn.from_torch: Shard spec must not be None for sharded tensors",
    )
    parts = mesh_mapper.distribute(source) if mesh_mapper is not None else [source]
    host = host_tensor(parts, dtype, layout, config, pad_value or 0)
    return host if device is None else host.to(device, config, cq_id=cq_id)


def _for_columns(
    source: torch.Tensor, dtype: DataType | None, spec: Spec | None, layout: Layout | None
) -> torch.Tensor:
    """`col_tilize`: rows and columns swapped, so that a column's values share exponents."""
    is_block = isinstance(dtype, DataType) and dtype.is_block_float
    fatal(spec is None, "ttnn.from_torch: col_tilize=True is not supported with spec")
    fatal(is_block, "ttnn.from_torch: col_tilize=True requires BFP dtype (bfloat8_b or bfloat4_b)")
    fatal(source.dim() >= 2, "ttnn.from_torch: col_tilize=True requires tensor.ndim >= 2")
    fatal(
        layout in (None, Layout.TILE),
        "ttnn.from_torch: col_tilize=True requires layout to be None or ttnn.TILE_LAYOUT",
    )
    return source.transpose(-2, -1).contiguous()


def _torch_tensor(tensor: Any) -> torch.Tensor:
    if isinstance(tensor, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(tensor))
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"from_torch takes a torch tensor or a NumPy array; it was given a {type(tensor).__name__}")
    return tensor.detach().cpu()


def logical_values(tensor: Tensor) -> list[torch.Tensor]:
    """The logical values of a host tensor as torch sees its dtype, one per chip."""
    return [unpad(v, tensor.shape).to(TORCH_OF_DTYPE[tensor.dtype]) for v in tensor.host_values("to_torch")]


@provides("to_torch")
@followed("ttnn.to_torch")
def to_torch(
    tensor: Tensor,
    dtype: torch.dtype | None = None,
    *,
    torch_rank: int | None = None,
    mesh_composer: MeshToTensor | None = None,
    device: Any = None,
    cq_id: int | None = None,
) -> torch.Tensor:
    """The logical values as a torch tensor; a device tensor is read first, blocking."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"to_torch takes a ttnn.Tensor; it was given a {type(tensor).__name__}")
    host = tensor.cpu(cq_id=cq_id)
    parts = logical_values(host)
    if mesh_composer is not None:
        values = mesh_composer.compose(parts)
    else:
        fatal(
            len(parts) == 1,
            f"Can't convert a tensor distributed on MeshShape([1, {len(parts)}]) mesh to row-major logical tensor. "
            "Supply a mesh composer to concatenate multi-device shards.",
        )
        values = parts[0]
    if torch_rank is not None:
        while values.dim() > torch_rank:
            if values.shape[0] != 1:
                raise RuntimeError("ttnn: Unable to squeeze to desired rank!")
            values = values.squeeze(0)
    values = values.to(dtype) if dtype is not None else values
    return values.clone() if values.data_ptr() == host.host_values()[0].data_ptr() else values


@provides("to_torch_with_padded_shape")
def to_torch_with_padded_shape(tensor: Tensor) -> torch.Tensor:
    """A copy (that of a host tensor shares its memory in TT-NN)."""
    return tensor.cpu().host_values()[0].to(TORCH_OF_DTYPE[tensor.dtype], copy=True)


@provides("construct")
def construct(tensor: Any, *args: Any, **kwargs: Any) -> Tensor:
    """`ttnn.Tensor(...)`: from a torch tensor, or from a flat list with a shape, dtype and layout."""
    if isinstance(tensor, Tensor):
        return tensor
    if isinstance(tensor, (list, tuple)):
        return _from_list(tensor, *args, **kwargs)
    names = ("dtype", "device", "layout", "memory_config", "tile", "cq_id", "pad_value", "mesh_mapper")
    renamed = {"data_type": "dtype", "mem_config": "memory_config"}
    given = dict(zip(names, args, strict=False)) | {renamed.get(k, k): v for k, v in kwargs.items()}
    made = from_torch(tensor, **given)
    assert made is not None
    return made


def _from_list(
    data: Sequence[float],
    shape: Sequence[int],
    data_type: DataType,
    layout: Layout,
    device: Any = None,
    memory_config: MemoryConfig | None = None,
    tile: Any = None,
    pad_value: float = 0.0,
) -> Tensor:
    dims = tuple(shape)
    kind = torch.float32 if data_type.is_float else torch.int64
    values = torch.tensor(data, dtype=kind)
    if values.numel() != Shape(dims).volume():
        raise ValueError(f"data has {values.numel()} elements; shape {dims} needs {Shape(dims).volume()}")
    host = host_tensor([values.reshape(dims)], data_type, layout, memory_config or DRAM_MEMORY_CONFIG, pad_value)
    return host if device is None else host.to(device, memory_config)


@provides("print")
def describe(tensor: Tensor) -> str:
    tail = f"shape={tensor.shape}, dtype={tensor.dtype.native}, layout={tensor.layout.native})"
    if not tensor.is_allocated() or (tensor._buffer is not None and not tensor._buffer.allocated):
        return f"ttnn.Tensor(<buffer is not allocated>, {tail}"
    values = to_torch(tensor) if len(tensor.cpu().host_values()) == 1 else logical_values(tensor.cpu())[0]
    return f"ttnn.Tensor({_numbers_text(values)}, {tail}"


def _numbers_text(values: torch.Tensor) -> str:
    plain = values.float() if values.is_floating_point() else values.to(torch.int64)
    text = repr(plain)
    return text[len("tensor(") : -1].split(", dtype=")[0].replace("\n       ", "\n            ")
