# SPDX-License-Identifier: Apache-2.0
"""Recorded calls of ops as data: a case names the op, its input tensors and its arguments.

`library` is the TT-NN that a case's call is made on: the virtual card here, the real library where it was recorded.

case = {"op": "linear", "inputs": [tensor, ...], "names": ["input_tensor_a", ...], "args": {...}}
tensor = {"shape": [...], "dtype": "bfloat16", "layout": "TILE", "memory": memory}
memory = {"kind": "dram" | "l1"} or {"kind": "height" | "width" | "block", "grid": [x, y], "shard": [h, w],
          "orientation": "COL_MAJOR" (row-major else)}, without "shard" a sharding that leaves the shards to the op
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from tt_cnn.conformance.agreement import compare
from tt_cnn.conformance.answer import answer
from tt_cnn.conformance.planning_card import PlanningCard
from tt_cnn.conformance.verdict import Verdict
from tt_cnn.virtual import ttnn

_LAYOUTS = {"height": "HEIGHT_SHARDED", "width": "WIDTH_SHARDED", "block": "BLOCK_SHARDED"}
_BY_NAME = ("dtype", "output_dtype")
_LAYOUT_ARGUMENTS = ("layout", "output_layout")
_MEMORY_ARGUMENTS = ("memory_config", "output_mem_config")


def memory_config(library: Any, memory: dict[str, Any]) -> Any:
    if memory["kind"] == "dram":
        return library.DRAM_MEMORY_CONFIG
    if memory["kind"] == "l1":
        return library.L1_MEMORY_CONFIG
    layout = getattr(library.TensorMemoryLayout, _LAYOUTS[memory["kind"]])
    if "shard" not in memory:
        return library.MemoryConfig(layout, library.BufferType.L1)
    x, y = memory["grid"]
    grid = library.CoreRangeSet([library.CoreRange(library.CoreCoord(0, 0), library.CoreCoord(x - 1, y - 1))])
    orientation = getattr(library.ShardOrientation, memory.get("orientation", "ROW_MAJOR"))
    return library.MemoryConfig(layout, library.BufferType.L1, library.ShardSpec(grid, memory["shard"], orientation))


def tensor(library: Any, device: Any, spec: dict[str, Any]) -> Any:
    return library.allocate_tensor_on_device(
        library.Shape(spec["shape"]),
        getattr(library, spec["dtype"]),
        getattr(library.Layout, spec.get("layout", "TILE")),
        device,
        memory_config(library, spec["memory"]),
    )


def inputs(library: Any, device: Any, case: dict[str, Any]) -> list[Any]:
    return [tensor(library, device, spec) for spec in case["inputs"]]


def call(library: Any, device: Any, case: dict[str, Any], tensors: list[Any]) -> Any:
    """The first output of the call."""
    function = library
    for part in case["op"].split("."):
        function = getattr(function, part)
    named = {name: value for name, value in zip(case.get("names", []), tensors, strict=False) if name}
    positional = [] if named else tensors
    if named:
        positional = [t for name, t in zip(case["names"], tensors, strict=True) if not name]
    arguments = {name: _argument(library, device, name, value) for name, value in case["args"].items()}
    result = function(*positional, **named, **arguments)
    return result[0] if isinstance(result, (tuple, list)) else result


def _argument(library: Any, device: Any, name: str, value: Any) -> Any:
    if value is None:
        return None
    if name in _MEMORY_ARGUMENTS:
        return memory_config(library, value)
    if name in _BY_NAME:
        return getattr(library, value)
    if name in _LAYOUT_ARGUMENTS:
        return getattr(library.Layout, value)
    if name == "core_grid":
        return library.CoreGrid(x=value[0], y=value[1])
    if name == "compute_kernel_config":
        return library.init_device_compute_kernel_config(
            device.arch(),
            math_fidelity=getattr(library.MathFidelity, value["fidelity"]),
            math_approx_mode=value.get("approx", False),
            fp32_dest_acc_en=value.get("fp32", False),
            packer_l1_acc=value.get("l1_acc", False),
        )
    if name == "program_config":
        return _program_config(library, value)
    return value


def _program_config(library: Any, value: dict[str, Any]) -> Any:
    fields = {name: given for name, given in value.items() if name != "type"}
    if "compute_with_storage_grid_size" in fields:
        fields["compute_with_storage_grid_size"] = library.CoreCoord(*fields["compute_with_storage_grid_size"])
    activation = fields.get("fused_activation")
    if activation is not None:
        fields["fused_activation"] = library.UnaryWithParam(getattr(library.UnaryOpType, activation))
    return getattr(library, value["type"])(**fields)


def read(path: Path) -> list[dict[str, Any]]:
    """Steps are named without `Operation` at the end, which these recordings left on where `Device` is not before."""
    text = gzip.decompress(path.read_bytes()).replace(b'"BatchNormOperation"', b'"BatchNorm"')
    return [json.loads(line) for line in text.splitlines()]


def replay(record: dict[str, Any]) -> dict[str, Verdict]:
    """The verdict on each recorded field of one call, made on a clean virtual card."""
    card = PlanningCard(record["card"])
    tensors = inputs(ttnn, card, record["case"])
    return compare(record["result"], answer(card, lambda: call(ttnn, card, record["case"], tensors)))
