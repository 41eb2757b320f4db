# SPDX-License-Identifier: Apache-2.0
"""A card that plans and allocates without computing, and TT-NN with every call's result written down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.tensor import Tensor


class PlanOnlyCard(MeshDevice):
    """Plans, allocates and remembers programs as any card does; commands go nowhere."""

    def __init__(self, name: str = "n150", l1_small_size: int = 65536) -> None:
        shape = ttnn.MeshShape(1, 1)
        super().__init__(card_by_name(name), shape=shape, device_ids=[0], l1_small_size=l1_small_size, hazards="off")

    def enqueue(self, command: Command, wait: bool = False) -> int:
        for listener in self.listeners:
            listener(command)
        return 0


@dataclass(frozen=True)
class Note:
    """One call: its op, its result as the tables print it, its conv2d arguments, and bytes a bank in use after it."""

    op: str
    output: str
    options: dict[str, Any]
    l1: int
    l1_small: int


class NotedTTNN:
    """`ttnn` with a diary: ops are called and noted, everything else is passed on."""

    def __init__(self, device: MeshDevice, module: Any = ttnn, notes: list[Note] | None = None) -> None:
        self._device = device
        self._module = module
        self.notes: list[Note] = [] if notes is None else notes

    def __getattr__(self, name: str) -> Any:
        if name == "experimental":
            return NotedTTNN(self._device, self._module.experimental, self.notes)
        value = getattr(self._module, name)
        return self._noted(name, value) if value in OPERATIONS.values() else value

    def _noted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            result = call(*args, **kwargs)
            in_use = [
                self._device.memory_view(kind).total_bytes_allocated_per_bank
                for kind in (ttnn.BufferType.L1, ttnn.BufferType.L1_SMALL)
            ]
            options = {key: value for key, value in kwargs.items() if not isinstance(value, Tensor)}
            tensor = result[0] if isinstance(result, tuple) else result
            self.notes.append(Note(name, described(tensor), options, *in_use))
            return result

        return noted


def described(tensor: Tensor) -> str:
    """`(1, 1, 307200, 8) BFLOAT16 ROW_MAJOR HEIGHT_SHARDED L1 shard=[4800, 8] cores=64 grid={[0-0 - 7-7]}`."""
    config = tensor.memory_config()
    text = (
        f"{tuple(tensor.shape)} {tensor.dtype.name} {tensor.layout.name.removesuffix('_LAYOUT')} "
        f"{config.memory_layout.name} {config.buffer_type.name}"
    )
    shard = config.shard_spec
    if shard is None:
        return text
    return f"{text} shard={list(shard.shape)} cores={shard.num_cores()} grid={shard.grid}"
