# SPDX-License-Identifier: Apache-2.0
"""The calls that a program makes, written as data: the inverse of `conformance.written_calls`.

They are read on the virtual card, where every call goes through one place; the real library is asked the same calls,
one by one on a clean card, by `case_recorder`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.ops.operation import Call, Operation
from tt_cnn.virtual.ops.sliding_window.slice_config import Op2DSliceConfig, SliceTypeEnum
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types import (
    CoreCoord,
    CoreGrid,
    CoreRange,
    CoreRangeSet,
    DataType,
    MemoryConfig,
    Shape,
    UnaryWithParam,
    WormholeComputeKernelConfig,
)
from tt_cnn.virtual.types.enums import NativeEnum

Case = dict[str, Any]
FAMILY = "live"
_KINDS = {"HEIGHT_SHARDED": "height", "WIDTH_SHARDED": "width", "BLOCK_SHARDED": "block"}


class CannotWrite(TypeError):
    """An argument that has no written form."""


@contextmanager
def written_calls(way: str) -> Iterator[list[Case]]:
    """The different calls made inside, in the order of their first time. `way` says what program they come from."""
    cases: dict[str, Case] = {}
    inner = Operation.runner

    def note(operation: Operation, call: Call) -> Any:
        try:
            case = write_call(operation.name, *call.given) | {"way": way}
            cases.setdefault(json.dumps(case, sort_keys=True), case)
        except CannotWrite:  # such a call is not asked again
            pass
        return operation.run(call) if inner is None else inner(operation, call)

    found: list[Case] = []
    Operation.runner = note
    try:
        yield found
    finally:
        Operation.runner = inner
        found.extend(cases.values())


def write_call(op: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Case:
    """One call as a case of a corpus."""
    inputs: list[Tensor] = []
    written = [_write(one, inputs) for one in args]
    named = {name: _write(value, inputs) for name, value in kwargs.items()}
    case: Case = {"family": FAMILY, "op": op, "inputs": [_input(one) for one in inputs]}
    return case | {"args": written, "kwargs": named}


def _write(value: Any, inputs: list[Tensor]) -> Any:
    """An argument; its tensors are added to the inputs. (A function inside `write_call` would keep them in a cycle.)"""
    if isinstance(value, Tensor):
        if not any(one is value for one in inputs):
            inputs.append(value)
        return {"$t": next(number for number, one in enumerate(inputs) if one is value)}
    if isinstance(value, list):
        return [_write(one, inputs) for one in value]
    if type(value) is tuple:
        return {"$tuple": [_write(one, inputs) for one in value]}
    return write_value(value)


def _input(tensor: Tensor) -> Case:
    spec = tensor.spec
    case: Case = {"shape": list(spec.shape), "dtype": spec.dtype.name.lower(), "layout": spec.layout.name}
    if tensor._buffer is None:
        return case | {"memory": {"kind": "dram"}, "host": True}
    return case | {"memory": write_memory(spec.memory_config)}


def write_memory(config: MemoryConfig) -> Case:
    buffer = config.buffer_type.name
    if config.memory_layout.name == "INTERLEAVED":
        if buffer not in ("DRAM", "L1"):
            raise CannotWrite(f"interleaved memory in {buffer}")
        return {"kind": buffer.lower()}
    case: Case = {"kind": _KINDS[config.memory_layout.name], "buffer": buffer}
    shard = config.shard_spec
    if shard is not None:
        ranges = [[[r.start.x, r.start.y], [r.end.x, r.end.y]] for r in shard.grid.ranges()]
        case |= {"ranges": ranges, "shard": list(shard.shape), "orient": shard.orientation.name}
    return case


def write_value(value: Any) -> Any:
    """An argument that holds no tensors."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    for kind, write in _FORMS.items():
        if isinstance(value, kind):
            return write(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _object(type(value).__name__, **_changed(value))
    raise CannotWrite(f"{value!r} has no written form")


def _changed(value: Any) -> dict[str, Any]:
    """The fields of an object that are not as they are without being named."""
    found = {}
    for one in fields(value):
        default = one.default if one.default_factory is MISSING else one.default_factory()
        current = getattr(value, one.name)
        if one.init and (default is MISSING or current != default):
            found[one.name] = current
    return found


def _object(name: str, *args: Any, **kwargs: Any) -> Case:
    return {"$o": name, "a": [write_value(a) for a in args], "k": {k: write_value(v) for k, v in kwargs.items()}}


def _slicing(config: Op2DSliceConfig) -> Case:
    if config.slice_type is SliceTypeEnum.L1Full and not config.num_slices:
        return {"$e": "Conv2dL1FullSliceConfig"}
    kind = {"$e": f"Conv2dSliceConfig.SliceTypeEnum.{config.slice_type.name}"}
    return {"$o": "Conv2dSliceConfig", "a": [], "k": {"slice_type": kind, "num_slices": config.num_slices}}


_FORMS: dict[type, Callable[[Any], Any]] = {
    list: lambda value: [write_value(one) for one in value],
    tuple: lambda value: {"$tuple": [write_value(one) for one in value]},
    slice: lambda value: {"$slice": [value.start, value.stop, value.step]},
    type(...): lambda value: {"$ell": 1},
    MeshDevice: lambda value: {"$dev": 1},
    MemoryConfig: lambda value: {"$mem": write_memory(value)},
    DataType: lambda value: {"$e": value.name.lower()},
    NativeEnum: lambda value: {"$e": f"{type(value).__name__}.{value.name}"},
    WormholeComputeKernelConfig: lambda value: {
        "$ck": {f.name: write_value(getattr(value, f.name)) for f in fields(value)}
    },
    Op2DSliceConfig: _slicing,
    Shape: lambda value: _object("Shape", list(value)),
    CoreGrid: lambda value: _object("CoreGrid", x=value.x, y=value.y),
    CoreCoord: lambda value: _object("CoreCoord", value.x, value.y),
    CoreRange: lambda value: _object("CoreRange", value.start, value.end),
    CoreRangeSet: lambda value: _object("CoreRangeSet", value.ranges()),
    UnaryWithParam: lambda value: _object("UnaryWithParam", value.op_type, *value.params),
}
