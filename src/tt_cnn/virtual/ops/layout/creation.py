# SPDX-License-Identifier: Apache-2.0
"""zeros, ones, full, empty, and the same after the model of a tensor.

TT-NN makes the values on the host and writes them to the card. Only what is like a floating tensor in tiles is made on
the card, by the unary op `fill`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import fatal
from tt_cnn.virtual.ops.layout.allocation import allocate
from tt_cnn.virtual.ops.layout.transfers import copy_host_to_device_tensor, to_device
from tt_cnn.virtual.ops.operation import OPERATIONS, Call, Operation, op
from tt_cnn.virtual.tensors.conversion import as_stored, constant_host_tensor, host_tensor
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

_FILLED_ON_CARD = (DataType.BFLOAT16, DataType.FLOAT32, DataType.BFLOAT8_B)


def filled(
    shape: Shape,
    value: float,
    dtype: DataType | None,
    layout: Layout | None,
    device: MeshDevice | None,
    config: MemoryConfig | None,
    into: Tensor | None = None,
) -> Tensor:
    """A tensor with one value everywhere: on the host, on a device, or written into a tensor that exists."""
    dtype, layout, config = dtype or DataType.BFLOAT16, layout or Layout.ROW_MAJOR, config or DRAM_MEMORY_CONFIG
    if device is None and dtype.is_block_float:
        layout = Layout.TILE  # the host has no other form of them; on a card it must be asked for
    host = constant_host_tensor(Spec(shape, dtype, layout, config), as_stored(value, dtype))
    if into is not None:
        copy_host_to_device_tensor(host, into)
        return into
    return host if device is None else to_device(host, device, config)


class _Created(Operation):
    """An op whose result is made on the host, without a program."""

    def shortcut(self, call: Call) -> Tensor:
        return self.make(**call.attributes)

    def make(self, **attributes: Any) -> Tensor:
        raise NotImplementedError


class _Constant(_Created):
    value = 0.0

    def arguments(
        self,
        shape: Sequence[int],
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        return Call([], shape=Shape(shape), dtype=dtype, layout=layout, on=device, memory_config=memory_config)

    def make(self, **a: Any) -> Tensor:
        return filled(a["shape"], self.value, a["dtype"], a["layout"], a["on"], a["memory_config"])


@op("zeros")
class Zeros(_Constant):
    pass


@op("ones")
class Ones(_Constant):
    value = 1.0


@op("full")
class Full(_Created):
    def arguments(
        self,
        shape: Sequence[int],
        fill_value: float,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
        optional_tensor: Tensor | None = None,
    ) -> Call:
        return Call(
            [],
            shape=Shape(shape),
            value=fill_value,
            dtype=dtype,
            layout=layout,
            on=device,
            memory_config=memory_config,
            into=optional_tensor,
        )

    def make(self, **a: Any) -> Tensor:
        return filled(a["shape"], a["value"], a["dtype"], a["layout"], a["on"], a["memory_config"], a["into"])


@op("empty")
class Empty(_Created):
    """Memory on the card whose values were never written."""

    def arguments(
        self,
        shape: Sequence[int],
        dtype: DataType = DataType.BFLOAT16,
        layout: Layout = Layout.ROW_MAJOR,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
    ) -> Call:
        if device is None:  # it has no default there, but parameters before it have
            raise TypeError("ttnn.empty(): incompatible function arguments: it needs a device")
        return Call([], spec=Spec(Shape(shape), dtype, layout, memory_config), on=device)

    def make(self, **a: Any) -> Tensor:
        return _allocated(a["spec"], a["on"])


def _allocated(spec: Spec, device: MeshDevice | None) -> Tensor:
    fatal(device is not None, "ttnn.empty needs a device, given or that of the tensor")
    assert device is not None
    return Tensor.on_device(spec, allocate(device, spec, "empty"))


class _Like(_Created):
    value: float | None = 0.0

    def arguments(
        self,
        tensor: Tensor,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
        optional_tensor: Tensor | None = None,
    ) -> Call:
        return Call(
            [],
            like=tensor,
            value=self.value,
            dtype=dtype or tensor.dtype,
            layout=layout or tensor.layout,
            on=device or tensor.device(),
            memory_config=memory_config,
            into=optional_tensor,
        )

    def make(self, **a: Any) -> Tensor:
        like: Tensor = a["like"]
        on_card = like._buffer is not None
        same = a["dtype"] is like.dtype and a["layout"] is like.layout is Layout.TILE
        if on_card and same and like.dtype in _FILLED_ON_CARD:
            return OPERATIONS["fill"](like, a["value"], memory_config=a["memory_config"], output_tensor=a["into"])
        config = a["memory_config"] or (like.memory_config() if on_card else None)
        return filled(like.shape, a["value"], a["dtype"], a["layout"], a["on"], config, a["into"])


@op("zeros_like")
class ZerosLike(_Like):
    pass


@op("ones_like")
class OnesLike(_Like):
    value = 1.0


@op("full_like")
class FullLike(_Like):
    def arguments(  # type: ignore[override]
        self,
        tensor: Tensor,
        fill_value: float,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
        optional_tensor: Tensor | None = None,
    ) -> Call:
        call = super().arguments(tensor, dtype, layout, device, memory_config, optional_tensor)
        call.attributes["value"] = fill_value
        return call


@op("empty_like")
class EmptyLike(_Like):
    def arguments(  # type: ignore[override]
        self,
        tensor: Tensor,
        *,
        dtype: DataType | None = None,
        layout: Layout | None = None,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig | None = None,
    ) -> Call:
        return super().arguments(tensor, dtype, layout, device, memory_config)

    def make(self, **a: Any) -> Tensor:
        like: Tensor = a["like"]
        return _allocated(
            Spec(like.shape, a["dtype"], a["layout"], a["memory_config"] or like.memory_config()), a["on"]
        )


_MOST_NUMBERS = 2**27


@op("arange")
class Arange(_Created):
    """`(end)` or `(start, end, step)`, whole numbers, made on the host."""

    def arguments(
        self,
        start: int | None = None,
        end: int | None = None,
        step: int = 1,
        *,
        dtype: DataType = DataType.BFLOAT16,
        device: MeshDevice | None = None,
        memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
        layout: Layout = Layout.ROW_MAJOR,
    ) -> Call:
        if end is None:
            start, end = 0, start
        for name, number in (("start", start), ("end", end), ("step", step)):
            if not isinstance(number, int):
                raise TypeError(f"\nttnn.arange(): incompatible function arguments: {name} is {number!r}")
        return Call([], bounds=(start, end, step), dtype=dtype, on=device, memory_config=memory_config, layout=layout)

    def make(self, **a: Any) -> Tensor:
        start, end, step = a["bounds"]
        fatal(step != 0, "Step must be nonzero")
        fatal(not a["dtype"].is_block_float, "Unsupported dtype")
        fatal((end - start) * step >= 0, "Invalid range: Step direction does not match range bounds")
        count = max(0, -((start - end) // step))
        fatal(count <= _MOST_NUMBERS, f"ttnn.arange of {count} numbers is more than the host makes ({_MOST_NUMBERS})")
        numbers = start + step * torch.arange(count, dtype=torch.int64)
        host = host_tensor([numbers], a["dtype"], a["layout"], a["memory_config"])
        return host if a["on"] is None else to_device(host, a["on"], a["memory_config"])
