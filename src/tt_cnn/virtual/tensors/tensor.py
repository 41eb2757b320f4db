# SPDX-License-Identifier: Apache-2.0
"""`ttnn.Tensor`: a spec with values on the host, or with a buffer on a card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tt_cnn.interrupts import uninterrupted
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.tensors.storage import Buffer, Holder, HostStorage
from tt_cnn.virtual.threads.calls import followed
from tt_cnn.virtual.types.enums import DataType, Layout, StorageType
from tt_cnn.virtual.types.geometry import Shape, Tile, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_ids: Iterator[int] = iter(range(1, 2**62))

OPERATORS: dict[str, Callable[..., Any]] = {}
"""What `+`, slicing and the conversion methods call; the ops fill it in, since they stand above tensors."""


def provides(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers the function behind a method of Tensor."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OPERATORS[name] = function
        return function

    return register


class Tensor:
    """Values with a logical shape, a dtype, a layout and a place.

    `Tensor(torch_tensor, dtype)` and `Tensor(data, shape, dtype, layout, ...)` make host tensors (or device tensors,
    with `device`), as TT-NN's constructors do.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        made = OPERATORS["construct"](*args, **kwargs)
        self._set(made._spec, made._host, made._buffer)

    @classmethod
    def on_host(cls, spec: Spec, host: HostStorage) -> Tensor:
        self = cls.__new__(cls)
        self._set(spec, host, None)
        return self

    @classmethod
    def on_device(cls, spec: Spec, buffer: Buffer) -> Tensor:
        self = cls.__new__(cls)
        self._set(spec, None, buffer)
        return self

    def another(self) -> Tensor:
        """A second tensor in the same memory; on the host, the same one."""
        if self._buffer is None:
            return self
        second = Tensor.on_device(self._spec, self._buffer)
        second._is_view = self._is_view
        return second

    def _set(self, spec: Spec, host: HostStorage | None, buffer: Buffer | None) -> None:
        self._spec = spec
        self._host = host
        self._buffer = buffer
        self._deallocated = False
        self._is_view = buffer is not None and buffer.owners > 0
        self.tensor_id = next(_ids)
        if buffer is not None:
            buffer.held_by(self)

    @property
    def holds_its_buffer(self) -> bool:
        return not self._deallocated

    # --- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        return self._spec.shape

    @property
    def padded_shape(self) -> Shape:
        return self._spec.padded_shape

    @property
    def dtype(self) -> DataType:
        return self._spec.dtype

    @property
    def layout(self) -> Layout:
        return self._spec.layout

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def tile(self) -> Tile:
        return Tile()

    def get_tile(self) -> Tile:
        return Tile()

    def get_dtype(self) -> DataType:
        return self._spec.dtype

    def get_layout(self) -> Layout:
        return self._spec.layout

    def volume(self) -> int:
        return self._spec.volume

    def logical_volume(self) -> int:
        return self._spec.shape.volume()

    def element_size(self) -> int:
        if self.dtype.is_block_float:
            raise ValueError("datum for bfp2, bfp4, bfp8 is invalid")
        return self.dtype.element_bytes

    def storage_type(self) -> StorageType:
        return StorageType.HOST if self._buffer is None else StorageType.DEVICE

    def memory_config(self) -> MemoryConfig:
        """A copy: what is changed about it is not changed about the tensor."""
        return self._spec.memory_config.copy()

    def is_sharded(self) -> bool:
        return self._spec.is_sharded

    def is_allocated(self) -> bool:
        """A view that is deallocated takes its source along; the other way round it stays (recorded)."""
        buffer = self._buffer
        if buffer is None:
            return True
        return (buffer.allocated or self._is_view) and not self._deallocated and not buffer.device.closed

    def device(self) -> Holder | None:
        return None if self._buffer is None or self._deallocated else self._buffer.device

    def devices(self) -> list[Holder]:
        return [] if self._buffer is None else [self._buffer.device]

    # --- its memory ---------------------------------------------------------------------------------------------

    def buffer(self, op: str = "", freed: str = "Tensor is not allocated") -> Buffer:
        """The device buffer; an error naming the op where there is none any more, which begins with `freed`."""
        buffer = self._buffer
        if buffer is not None and buffer.allocated and not (self._deallocated or buffer.device.closed):
            return buffer
        what = f"ttnn.{op}" if op else "this call"
        if buffer is None:
            raise CardError(
                f"{what} needs a tensor on the device, but it was given a host tensor {_describe(self)}.",
                "  move it with ttnn.to_device(tensor, device) first",
            )
        if buffer.device.closed:
            raise CardError(f"{what} was given a tensor {_describe(self)} of a device that is closed.")
        raise CardError(
            freed,
            f"  {what} was given a tensor {_describe(self)} that is no longer allocated (freed by "
            f"{buffer.freed_by or 'deallocate'})",
        )

    def buffer_address(self) -> int:
        fatal(self._buffer is not None, "StorageType::HOST doesn't support buffer_address method")
        fatal(self.is_allocated(), "Tensor is not allocated.")
        assert self._buffer is not None
        return self._buffer.place.address

    def buffer_unique_id(self) -> int:
        return self.buffer("buffer_unique_id").serial

    def buffer_page_size(self) -> int:
        return self._spec.page_bytes

    def buffer_num_pages(self) -> int:
        return self._spec.num_pages

    def buffer_aligned_page_size(self) -> int:
        memory = self.buffer("buffer_aligned_page_size").device.memory
        return round_up(self._spec.page_bytes, memory.page_alignment(self._spec.memory_config.buffer_type))

    @followed("Tensor::deallocate")
    def deallocate(self, force: bool = False) -> None:
        """Give the memory back; without `force` only when no other tensor shares it. Twice is harmless."""
        buffer = self._buffer
        if buffer is None or self._deallocated or (not force and buffer.owners > 1):
            return
        with uninterrupted:
            self._deallocated = True
            buffer.free("deallocate")

    def consumed_by(self, op: str) -> None:
        """The op has already given the memory back (`move`, `deallocate_activation`)."""
        buffer = self._buffer
        assert buffer is not None
        self._deallocated = True
        buffer.given_back(op)

    # --- its values ---------------------------------------------------------------------------------------------

    def host_values(self, op: str = "") -> list[torch.Tensor]:
        """The padded values of a host tensor, one per chip."""
        if self._host is None:
            raise CardError(f"ttnn.{op} needs a host tensor, but it was given a device tensor {_describe(self)}.")
        return self._host.get()

    def cpu(self, blocking: bool = True, cq_id: int | None = None) -> Tensor:
        return OPERATORS["from_device"](self, blocking, queue_id=cq_id)

    def to(self, target: Any, memory_config: MemoryConfig | None = None, cq_id: int | None = None) -> Tensor:
        """To a device (or another layout, on the host)."""
        if isinstance(target, Layout):
            return OPERATORS["to_layout"](self, target)
        return OPERATORS["to_device"](self, target, memory_config or self.memory_config(), queue_id=cq_id)

    def to_torch(self, **kwargs: Any) -> torch.Tensor:
        return OPERATORS["to_torch"](self, **kwargs)

    def to_torch_with_padded_shape(self) -> torch.Tensor:
        return OPERATORS["to_torch_with_padded_shape"](self)

    def to_numpy(self) -> Any:
        values = self.to_torch()
        return (values.float() if values.dtype is torch.bfloat16 else values).numpy()

    def to_list(self) -> list[Any]:
        return self.to_torch().tolist()

    def item(self) -> float | int:
        fatal(self.logical_volume() == 1, f"item() needs a tensor of one element, not of shape {self.shape}")
        return self.to_torch().reshape(()).item()

    def reshape(self, *shape: Any) -> Tensor:
        dims = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return OPERATORS["reshape"](self, dims)

    def pad(self, output_shape: Sequence[int], start: Sequence[int], value: float) -> Tensor:
        return OPERATORS["host_pad"](self, output_shape, start, value)

    def pad_to_tile(self, value: float) -> Tensor:
        return OPERATORS["host_pad_to_tile"](self, value)

    def unpad(self, start: Sequence[int], end: Sequence[int]) -> Tensor:
        return OPERATORS["host_unpad"](self, start, end)

    def unpad_from_tile(self, shape: Sequence[int]) -> Tensor:
        return OPERATORS["host_unpad_from_tile"](self, shape)

    def __getitem__(self, index: Any) -> Tensor:
        return OPERATORS["getitem"](self, index)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        raise TypeError("a ttnn.Tensor is not iterable; use ttnn.split or slices")

    def __repr__(self) -> str:
        return OPERATORS["print"](self)

    __hash__ = object.__hash__


def _describe(tensor: Tensor) -> str:
    dims = "x".join(map(str, tensor.shape))
    return f"({dims} {tensor.dtype.name} {tensor.layout.name})"


def _operator(name: str, reflected: bool = False) -> Callable[[Tensor, Any], Tensor]:
    def call(self: Tensor, other: Any) -> Tensor:
        function = OPERATORS[name]
        return function(other, self) if reflected else function(self, other)

    return call


for _method, _name in {
    "__add__": "add",
    "__sub__": "subtract",
    "__mul__": "multiply",
    "__truediv__": "divide",
    "__matmul__": "matmul",
    "__eq__": "eq",
    "__ne__": "ne",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
}.items():
    setattr(Tensor, _method, _operator(_name))
for _method, _name in {"__radd__": "add", "__rmul__": "multiply", "__rtruediv__": "rdiv"}.items():
    setattr(Tensor, _method, _operator(_name))
Tensor.__rsub__ = _operator("subtract", reflected=True)  # type: ignore[attr-defined]
