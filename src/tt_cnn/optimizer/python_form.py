# SPDX-License-Identifier: Apache-2.0
"""Settings as Python, in the way of the bring-up guide's `tt/config.py`: what a person would write by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from tt_cnn import ttnn
from tt_cnn.builder.codec import ENUMERATIONS, encode
from tt_cnn.builder.configuration import Configuration
from tt_cnn.builder.overrides import LayerSettings

WIDTH = 120
_INDENT = "    "


@dataclass(frozen=True)
class Call:
    """A call, a list or a dict: broken into lines where it does not fit into one."""

    opening: str
    items: tuple[tuple[str, Any], ...]
    """What stands before each value (`name=`, `"key": `), and the value: a string or another call."""
    closing: str

    def flat(self) -> str:
        return self.opening + ", ".join(label + _flat(value) for label, value in self.items) + self.closing


def _flat(node: Any) -> str:
    return node.flat() if isinstance(node, Call) else str(node)


def lines(node: Any, before: str = "", after: str = "", indent: str = "", broken: bool = False) -> list[str]:
    """The code of a value as lines; `broken` keeps its items apart even where they would fit into one."""
    one = f"{indent}{before}{_flat(node)}{after}"
    if not isinstance(node, Call) or not node.items or (len(one) <= WIDTH and not broken):
        return [one]
    inside = [line for label, value in node.items for line in lines(value, label, ",", indent + _INDENT)]
    return [f"{indent}{before}{node.opening}", *inside, f"{indent}{node.closing}{after}"]


def value_node(value: Any) -> Any:
    """A value of a configuration as code, or as a call."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return (
            f'"{value}"'
            if isinstance(value, str) and value.isprintable() and not set(value) & {'"', "\\"}
            else repr(value)
        )
    if isinstance(value, (tuple, list)):
        closing = ",)" if len(value) == 1 else ")"
        return Call("(", tuple(("", value_node(item)) for item in value), closing)
    if isinstance(value, Configuration):
        return _configuration(value)
    if type(value).__name__ in ENUMERATIONS:
        return _member(value)
    for kind, write in _WRITERS.items():
        if isinstance(value, getattr(ttnn, kind)):
            return write(value)
    raise TypeError(f"{value!r} cannot be written as Python")


def _member(value: Any) -> str:
    """`ttnn.bfloat16` and `ttnn.TILE_LAYOUT` where TT-NN has such names, else the member of the enumeration."""
    for name in (value.name.lower(), f"{value.name}_LAYOUT"):
        found = getattr(ttnn, name, None)
        if type(found) is type(value) and found == value:
            return f"ttnn.{name}"
    return f"ttnn.{type(value).__name__}.{value.name}"


def _configuration(value: Configuration) -> Call:
    """Without what is as its class has it anyway."""
    given = []
    for each in fields(value):  # type: ignore[arg-type]
        own = getattr(value, each.name)
        default = each.default if each.default is not MISSING else MISSING
        if default is MISSING or encode(own) != encode(default):
            given.append((f"{each.name}=", value_node(own)))
    return Call(f"{type(value).__name__}(", tuple(given), ")")


def _core_ranges(value: Any) -> Call:
    ranges = tuple(
        (
            "",
            f"ttnn.CoreRange(ttnn.CoreCoord({one.start.x}, {one.start.y}), ttnn.CoreCoord({one.end.x}, {one.end.y}))",
        )
        for one in value.ranges()
    )
    return Call("ttnn.CoreRangeSet(", (("", Call("[", ranges, "]")),), ")")


def _activation(value: Any) -> Call:
    parameters = tuple(("", repr(one)) for one in value.params)
    return Call("ttnn.UnaryWithParam(", (("", f"ttnn.UnaryOpType.{value.op_type.name}"), *parameters), ")")


def _memory_config(value: Any) -> Any:
    for name in ("L1_MEMORY_CONFIG", "DRAM_MEMORY_CONFIG"):
        if value == getattr(ttnn, name):
            return f"ttnn.{name}"
    spec = value.shard_spec
    parts = [f"ttnn.TensorMemoryLayout.{value.memory_layout.name}", f"ttnn.BufferType.{value.buffer_type.name}"]
    given: list[Any] = [value.memory_layout, value.buffer_type]
    nodes: list[Any] = list(parts)
    if spec is not None:
        shape = ", ".join(str(int(size)) for size in spec.shape)
        orientation = f"ttnn.ShardOrientation.{spec.orientation.name}"
        given.append(ttnn.ShardSpec(spec.grid, [int(size) for size in spec.shape], spec.orientation))
        nodes.append(
            Call("ttnn.ShardSpec(", (("", _core_ranges(spec.grid)), ("", f"[{shape}]"), ("", orientation)), ")")
        )
    if ttnn.MemoryConfig(*given).to_json() == value.to_json():
        return Call("ttnn.MemoryConfig(", tuple(("", node) for node in nodes), ")")
    return Call("ttnn.MemoryConfig.from_json(", (("", repr(value.to_json())),), ")")  # shards of more dimensions


_WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "CoreRangeSet": _core_ranges,
    "CoreGrid": lambda value: f"ttnn.CoreGrid(y={value.y}, x={value.x})",
    "UnaryWithParam": _activation,
    "MemoryConfig": _memory_config,
}


def python_module(layers: Mapping[str, LayerSettings], title: str, facts: Mapping[str, Any]) -> str:
    """A module with `LAYERS`: settings by layer, for `create_tt(..., config=LAYERS)`."""
    table = Call(
        "{",
        tuple(
            (f"{_key(name)}: ", Call("{", tuple((f"{_key(k)}: ", value_node(v)) for k, v in own.items()), "}"))
            for name, own in layers.items()
        ),
        "}",
    )
    body = [f"LAYERS = {table.opening}"]
    for label, node in table.items:
        body += lines(node, label, ",", _INDENT, broken=True)
    body.append("}")
    code = "\n".join(body) + "\n"
    used = [name for name in sorted(_strategies(layers)) if f"{name}(" in code]
    imports = ["from tt_cnn import ttnn"] if "ttnn." in code else []
    if used:
        names = "".join(f"\n    {name}," for name in used)
        imports.append(f"from tt_cnn.builder import ({names}\n)")
    constants = [f"{name} = {_flat(value_node(value))}" for name, value in facts.items()]
    parts = [f'"""{_docstring(title)}"""', "\n".join(imports), "\n".join(constants), code]
    return "\n\n".join(part for part in parts if part)


def _strategies(layers: Mapping[str, LayerSettings]) -> set[str]:
    return {
        type(value).__name__ for own in layers.values() for value in own.values() if isinstance(value, Configuration)
    }


def _key(name: str) -> str:
    return str(value_node(name))


def _docstring(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"""', "'''")
