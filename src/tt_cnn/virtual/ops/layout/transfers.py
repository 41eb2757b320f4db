# SPDX-License-Identifier: Apache-2.0
"""Between host and card: writes, reads, and tensors without values yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tt_cnn.virtual.arguments.typed import typed
from tt_cnn.virtual.devices.device import MeshDevice, device_of, values_on
from tt_cnn.virtual.errors.card_error import CardError, fatal
from tt_cnn.virtual.ops.layout.allocation import allocate
from tt_cnn.virtual.queues.accesses import accesses_of
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.conversion import pad_to, unpad
from tt_cnn.virtual.tensors.storage import Buffer, HostStorage, PendingRead, zeros
from tt_cnn.virtual.tensors.tensor import Tensor, provides
from tt_cnn.virtual.threads.calls import followed
from tt_cnn.virtual.threads.latch import Latch
from tt_cnn.virtual.types.enums import DataType, Layout
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec


@provides("to_device")
@followed("ttnn.to_device")
def to_device(
    tensor: Tensor, device: MeshDevice, memory_config: MemoryConfig | None = None, *, queue_id: int | None = None
) -> Tensor:
    """A copy on the card, in DRAM where no memory config is given, whatever the host tensor's own.

    A tensor that is there already is returned as it is, whatever `memory_config` says. `Tensor.to` keeps its config.
    """
    if not isinstance(tensor, Tensor) or not isinstance(device, MeshDevice):
        raise TypeError(
            f"ttnn.to_device(): incompatible function arguments: it was given a {type(tensor).__name__} and a "
            f"{type(device).__name__}, where a ttnn.Tensor and a device are expected"
        )
    if memory_config is not None and not isinstance(memory_config, MemoryConfig):
        raise TypeError(f"ttnn.to_device(): memory_config is {memory_config!r}; it must be a MemoryConfig or None")
    if tensor._buffer is not None:
        tensor.buffer("to_device")
        return tensor
    config = memory_config or DRAM_MEMORY_CONFIG
    fatal(not config.is_sharded() or config.shard_spec is not None, "bad optional access")
    spec = Spec(tensor.shape, tensor.dtype, tensor.layout, config, tensor.spec.alignment)
    device.no_capture(device.queue(queue_id), _NO_WRITES)
    result = Tensor.on_device(spec, allocate(device, spec, "to_device"))
    _write(tensor, result, device, queue_id, "to_device")
    return result


def _write(host: Tensor, target: Tensor, device: MeshDevice, cq_id: int | None, name: str) -> None:
    queue = device.queue(cq_id)
    buffer = target.buffer(name)
    values, engine, cell = values_on(device, host.host_values(name)), device.engine, buffer.cell
    logical, shape = host.shape, tuple(target.padded_shape)

    def job() -> None:
        cell.values = [engine.upload(fit(v, logical, shape)) for v in values]

    device.enqueue(Command(f"ttnn.{name}", queue.index, job, accesses_of([buffer], write=True), writes=[cell]))
    buffer.will_be_written(queue.index)


def fit(value: torch.Tensor, logical: Shape, padded: Sequence[int]) -> torch.Tensor:
    """Values padded for one place (say, interleaved) as another place (say, shards) pads them."""
    return value if tuple(value.shape) == tuple(padded) else pad_to(unpad(value, tuple(logical)), padded)


@provides("from_device")
@followed("ttnn.from_device")
def from_device(tensor: Tensor, blocking: bool = True, *, queue_id: int | None = None) -> Tensor:
    """A copy on the host. Without `blocking` its values are there after the queue is synchronized."""
    if tensor._buffer is None:
        return tensor
    buffer = tensor.buffer("from_device")
    host = HostStorage(None)
    _read(tensor, buffer, host, blocking, queue_id, "from_device")
    return Tensor.on_host(tensor.spec, host)


def _read(tensor: Tensor, buffer: Buffer, host: HostStorage, blocking: bool, cq_id: int | None, name: str) -> None:
    device = device_of(tensor, name)
    queue = device.queue(cq_id)
    device.no_capture(queue, "Reads are not supported during trace capture.")
    if not buffer.written and not device.no_dispatch:
        buffer.check_readable(f"ttnn.{name}", f"a tensor of shape {tensor.shape}")
    engine, chips, cell, spec = device.engine, device.chips, buffer.cell, tensor.spec
    if device.no_dispatch:
        host.values = zeros(spec, chips, torch.device("cpu"))
    done = Latch()
    pending = PendingRead(device, done)

    def job() -> None:
        host.values = [engine.download(v) for v in cell.read(spec, chips, engine.device)]
        pending.mark = engine.mark_of_reads(queue.index)

    accesses = accesses_of([buffer], write=False)
    command = Command(f"ttnn.{name}", queue.index, job, accesses, reads=[cell], fills=host, done=done)
    tick = device.enqueue(command, wait=blocking)
    if not blocking and not device.no_dispatch:
        pending.enqueued(queue.index, tick)
        host.pending = pending


@followed("ttnn.copy_host_to_device_tensor")
def copy_host_to_device_tensor(host_tensor: Tensor, device_tensor: Tensor, cq_id: int | None = None) -> None:
    """Write a host tensor into a device tensor that exists."""
    _check_types(host_tensor, device_tensor, "copy_host_to_device_tensor")
    device = device_of(device_tensor, "copy_host_to_device_tensor")
    _check_same(host_tensor, device_tensor)
    device.no_capture(device.queue(cq_id), _NO_WRITES)
    _write(host_tensor, device_tensor, device, cq_id, "copy_host_to_device_tensor")


@followed("ttnn.copy_device_to_host_tensor")
def copy_device_to_host_tensor(
    device_tensor: Tensor, host_tensor: Tensor, blocking: bool = True, cq_id: int | None = None
) -> None:
    """Read a device tensor into a host tensor that exists."""
    _check_types(host_tensor, device_tensor, "copy_device_to_host_tensor")
    buffer = device_tensor.buffer("copy_device_to_host_tensor")
    _check_same(host_tensor, device_tensor)
    host = host_tensor._host
    assert host is not None
    _read(device_tensor, buffer, host, blocking, cq_id, "copy_device_to_host_tensor")


_NO_WRITES = "Writes are not supported during trace capture."


def _check_types(host: Tensor, device: Tensor, name: str) -> None:
    for tensor in (host, device):
        if not isinstance(tensor, Tensor):
            raise TypeError(f"ttnn.{name}(): incompatible function arguments: it was given a {type(tensor).__name__}")
    if host._host is None:
        raise CardError(f"Expected Tensor with HostStorage, got {host.storage_type().native}")


def _check_same(host: Tensor, device: Tensor) -> None:
    fatal(host.shape == device.shape, "Host tensor has different shape")
    fatal(host.dtype is device.dtype, "Host tensor has different dtype")
    fatal(host.layout is device.layout, "Host tensor has different page config")


def _spec_of(args: Sequence[Any]) -> tuple[Spec, Any]:
    """The two forms: (spec, device) and (shape, dtype, layout, device, memory_config=None)."""
    if isinstance(args[0], Spec):
        return args[0], args[1]
    return _spec_of_parts(*args[:3], *args[4:]), args[3]


@typed
def _spec_of_parts(
    shape: Sequence[int], dtype: DataType, layout: Layout, memory_config: MemoryConfig | None = None
) -> Spec:
    return Spec(Shape(shape), dtype, layout, memory_config or DRAM_MEMORY_CONFIG)


def _arguments(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> Sequence[Any]:
    names = (
        ("tensor_spec", "mesh_device")
        if "tensor_spec" in kwargs or (args and isinstance(args[0], Spec))
        else ("shape", "dtype", "layout", "mesh_device", "memory_config")
    )
    given = dict(zip(names, args, strict=False))
    for key, value in kwargs.items():
        key = "mesh_device" if key == "device" else key
        if key not in names or key in given:
            raise TypeError(f"ttnn.{name}(): incompatible function arguments: {key}")
        given[key] = value
    missing = [n for n in names if n not in given and n != "memory_config"]
    if missing:
        raise TypeError(f"ttnn.{name}(): incompatible function arguments: {', '.join(missing)} missing")
    return [given[n] for n in names if n in given]


@followed("ttnn.allocate_tensor_on_device")
def allocate_tensor_on_device(*args: Any, **kwargs: Any) -> Tensor:
    """A device tensor whose values are not written yet."""
    spec, device = _spec_of(_arguments(args, kwargs, "allocate_tensor_on_device"))
    if not isinstance(device, MeshDevice):
        raise TypeError(f"allocate_tensor_on_device takes a device; it was given a {type(device).__name__}")
    return Tensor.on_device(spec, allocate(device, spec, "allocate_tensor_on_device"))


def allocate_tensor_on_host(*args: Any, **kwargs: Any) -> Tensor:
    """A host tensor to read a device tensor into."""
    spec, device = _spec_of(_arguments(args, kwargs, "allocate_tensor_on_host"))
    chips = device.chips if isinstance(device, MeshDevice) else 1
    return Tensor.on_host(spec, HostStorage(zeros(spec, chips, torch.device("cpu"))))


@followed("ttnn.deallocate")
def deallocate(tensor: Tensor, force: bool = True) -> None:
    """Give a device tensor's memory back."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"deallocate takes a ttnn.Tensor; it was given a {type(tensor).__name__}")
    tensor.deallocate(force)
