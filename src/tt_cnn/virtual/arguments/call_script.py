# SPDX-License-Identifier: Apache-2.0
"""A call as a script that makes it again: tensors by their specs and without their values, the rest as it was given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.enums import NativeEnum
from tt_cnn.virtual.types.geometry import CoreRange, CoreRangeSet, Shape
from tt_cnn.virtual.types.memory_config import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from tt_cnn.virtual.types.unary import UnaryWithParam


class Described:
    """A tensor of a call without its values, for who keeps a call longer than its tensors."""

    __slots__ = ("on_device", "spec", "state")

    def __init__(self, tensor: Tensor) -> None:
        self.spec = tensor.spec
        self.on_device = tensor._buffer is not None
        self.state = "" if tensor.is_allocated() else "deallocated"


def described(value: Any) -> Any:
    """An argument with its tensors described."""
    if isinstance(value, Tensor):
        return Described(value)
    if type(value) is list or type(value) is tuple:
        return type(value)([one if type(one) is int else described(one) for one in value])
    return value


def call_script(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """The call of `name` (`ttnn.add`, say) with these arguments, to be run with `python FILE`."""
    lines: list[str] = []
    names: dict[int, str] = {}

    def made(tensor: Described) -> str:
        lines.append(f"t{len(lines)} = {_tensor(tensor)}")
        return f"t{len(lines) - 1}"

    def written(value: Any) -> str:
        if isinstance(value, Described):
            return made(value)
        if isinstance(value, Tensor):  # the same one may be given twice
            names[id(value)] = names.get(id(value)) or made(Described(value))
            return names[id(value)]
        if type(value) in (list, tuple):
            inner = ", ".join(map(written, value))
            return f"[{inner}]" if type(value) is list else f"({inner}{',' * (len(value) == 1)})"
        return expression(value)

    call = ", ".join([*map(written, args), *(f"{key}={written(value)}" for key, value in kwargs.items())])
    return "\n".join(
        [
            "import torch",
            "from tt_cnn.virtual import ttnn",
            "",
            "device = ttnn.open_device(device_id=0, l1_small_size=65536)",
            *lines,
            f"{name}({call})",
            "ttnn.synchronize_device(device)",
        ]
    )


def _tensor(tensor: Described) -> str:
    spec = tensor.spec
    place = f", device=device, memory_config={expression(spec.memory_config)}" if tensor.on_device else ""
    text = f"ttnn.zeros({list(spec.shape)}, dtype={expression(spec.dtype)}, layout={expression(spec.layout)}{place})"
    return f"{text}  # {tensor.state}" if tensor.state else text


def expression(value: Any) -> str:
    """Python that makes a value, where it can be written; else its repr."""
    return next((write(value) for kind, write in _WRITTEN.items() if isinstance(value, kind)), repr(value))


def _memory_config(config: MemoryConfig) -> str:
    if config == DRAM_MEMORY_CONFIG:
        return "ttnn.DRAM_MEMORY_CONFIG"
    parts = [config.memory_layout, config.buffer_type, *([config.shard_spec] if config.shard_spec else [])]
    return f"ttnn.MemoryConfig({', '.join(map(expression, parts))})"


_WRITTEN: dict[type, Callable[[Any], str]] = {
    NativeEnum: lambda one: f"ttnn.{one!r}",
    MeshDevice: lambda _: "device",
    torch.Tensor: lambda one: f"torch.zeros({list(one.shape)}, dtype={one.dtype})",
    MemoryConfig: _memory_config,
    ShardSpec: lambda one: f"ttnn.ShardSpec({expression(one.grid)}, {one.shape}, {expression(one.orientation)})",
    CoreRangeSet: lambda one: f"ttnn.CoreRangeSet([{', '.join(map(expression, one.ranges()))}])",
    CoreRange: lambda one: f"ttnn.CoreRange(({one.start.x}, {one.start.y}), ({one.end.x}, {one.end.y}))",
    Shape: lambda one: f"ttnn.Shape({list(one)})",
    UnaryWithParam: lambda one: f"ttnn.UnaryWithParam({', '.join([expression(one.op_type), *map(repr, one.params)])})",
}
