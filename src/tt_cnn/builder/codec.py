# SPDX-License-Identifier: Apache-2.0
"""TT-NN values as plain JSON data, and back."""

from __future__ import annotations

import json
from typing import Any

from tt_cnn import ttnn

ENUMERATIONS = {
    kind.__name__: kind
    for kind in (
        ttnn.DataType,
        ttnn.Layout,
        ttnn.MathFidelity,
        ttnn.PaddingMode,
        ttnn.TensorMemoryLayout,
        ttnn.UnaryOpType,
    )
}
"""Members are written as `DataType.BFLOAT16`: a diff of two files is readable, and the numbers may change."""


def encode(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    if type(value).__name__ in ENUMERATIONS and isinstance(value, ENUMERATIONS[type(value).__name__]):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, ttnn.CoreRangeSet):
        return {"core_ranges": [[r.start.x, r.start.y, r.end.x, r.end.y] for r in value.ranges()]}
    if isinstance(value, ttnn.CoreGrid):
        return {"core_grid": [value.x, value.y]}
    if isinstance(value, ttnn.UnaryWithParam):
        return {"activation": value.op_type.name, "parameters": list(value.params)}
    if isinstance(value, ttnn.MemoryConfig):
        return {"memory_config": json.loads(value.to_json())}
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"{value!r} cannot be written as JSON")


def _core_ranges(data: dict[str, Any]) -> Any:
    return ttnn.CoreRangeSet(
        [ttnn.CoreRange(ttnn.CoreCoord(x0, y0), ttnn.CoreCoord(x1, y1)) for x0, y0, x1, y1 in data["core_ranges"]]
    )


_OBJECTS = {
    "core_ranges": _core_ranges,
    "core_grid": lambda data: ttnn.CoreGrid(x=data["core_grid"][0], y=data["core_grid"][1]),
    "activation": lambda data: ttnn.UnaryWithParam(
        getattr(ttnn.UnaryOpType, data["activation"]), *data.get("parameters", ())
    ),
    "memory_config": lambda data: ttnn.MemoryConfig.from_json(json.dumps(data["memory_config"])),
}
"""How an object is rebuilt, by the first of its keys that says what it is."""


def decode(value: Any) -> Any:
    """The value that `encode` wrote. Nested configurations are left to the caller, who knows their classes."""
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if isinstance(value, str):
        kind, _, member = value.partition(".")
        return getattr(ENUMERATIONS[kind], member) if kind in ENUMERATIONS and member else value
    if isinstance(value, dict):
        for key, rebuild in _OBJECTS.items():
            if key in value:
                return rebuild(value)
        raise ValueError(f"{value!r} is not the JSON form of any value of a configuration")
    return value
