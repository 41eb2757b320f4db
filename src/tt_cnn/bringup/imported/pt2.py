# SPDX-License-Identifier: Apache-2.0
"""An exported program (`torch.export.save`) as a graph."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from tt_cnn.bringup.imported.archive import Archive, dtype_of
from tt_cnn.bringup.imported.graph import (
    UNNAMED,
    Call,
    Held,
    ImportedGraph,
    Ref,
    Step,
    Unreadable,
    plain_kind,
    plain_path,
)
from tt_cnn.bringup.imported.ops import check_ops

_SKIPPED = frozenset(
    [
        *("aten._assert_tensor_metadata.default", "aten._assert_scalar.default", "aten._assert_async.msg"),
        *("aten.sym_constrain_range_for_size.default", "aten.sym_constrain_range.default"),
    ]
)
"""Checks of what the exporter assumed."""
_SIMPLE = ("as_int", "as_float", "as_bool", "as_string", "as_ints", "as_floats", "as_bools", "as_strings")


def read_pt2(file: Path) -> ImportedGraph:
    """The program of the archive; nothing of it is executed."""
    with Archive(file) as archive:
        program = archive.program()
        tensors = {**archive.tensors("constants"), **archive.tensors("weights")}
    from torch._export.serde.schema import SCHEMA_VERSION

    major = program.get("schema_version", {}).get("major")
    if major != SCHEMA_VERSION[0]:
        raise Unreadable(
            f"{file} has version {major} of torch's schema, written by torch "
            f"{program.get('torch_version', 'unknown')}; torch {torch.__version__} reads {SCHEMA_VERSION[0]}: "
            "save it with this torch"
        )
    try:
        graph = _Reader(file, program["graph_module"], tensors).read()
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise Unreadable(f"{file} is no exported program that can be read: {error!r}") from error
    check_ops(graph.steps, str(file))
    return graph


class _Reader:
    def __init__(self, file: Path, data: Mapping[str, Any], tensors: Mapping[str, torch.Tensor]) -> None:
        self.file, self.graph, self.signature = file, data["graph"], data["signature"]
        self.calls = data["module_call_graph"]
        self.tensors = tensors
        self.held: dict[str, torch.Tensor] = {}
        self.buffers: set[str] = set()
        self.paths: dict[str, str] = {}
        """Of names in the graph that are parameters, buffers and constants."""
        self.kind = UNNAMED

    def read(self) -> ImportedGraph:
        names = self._read_signature()
        steps = [self._step(node) for node in self.graph["nodes"] if self._target(node) not in _SKIPPED]
        outputs = self._outputs()
        kept = [step for step in steps if step is not None]
        return ImportedGraph(
            self.kind,
            {name: self._shape(name) for name in names},
            outputs,
            self._keys(len(outputs)),
            kept,
            self.held,
            frozenset(self.buffers),
        )

    # -- what the program is given

    def _read_signature(self) -> list[str]:
        """Names of the user's inputs; what the module holds is noted."""
        names = []
        for spec in self.signature["input_specs"]:
            ((kind, said),) = spec.items()
            if kind == "user_input":
                if "as_tensor" not in said["arg"]:
                    raise Unreadable(f"{self.file}: an input of the model is no tensor; export it with tensors alone")
                names.append(said["arg"]["as_tensor"]["name"])
            elif kind in ("parameter", "buffer", "tensor_constant"):
                self._hold(kind, said)
            else:
                raise Unreadable(f"{self.file} is given a {kind}, which is not read; export the model without it")
        return names

    def _hold(self, kind: str, said: Mapping[str, Any]) -> None:
        own = said[f"{kind}_name"]
        if own not in self.tensors:
            raise Unreadable(f"{self.file} has no values of {own}")
        path = plain_path(own)
        tensor = self.tensors[own]
        if path in self.held:
            raise Unreadable(f"{self.file}: two parameters are named {path} when other signs are left out: {own!r}")
        self.held[path] = tensor
        self.paths[said["arg"]["name"]] = path
        if kind != "parameter":
            self.buffers.add(path)

    def _shape(self, name: str) -> tuple[int | None, ...]:
        meta = self.graph["tensor_values"][name]
        if not dtype_of(meta["dtype"], self.file).is_floating_point:
            kind = str(dtype_of(meta["dtype"], self.file)).removeprefix("torch.")
            raise Unreadable(f"{self.file}: input {name} is {kind}; bringup takes inputs of floating point")
        return tuple(size.get("as_int") for size in meta["sizes"])

    # -- ops

    def _target(self, node: Mapping[str, Any]) -> str:
        target = str(node["target"])
        return re.sub(r"^_operator\.", "operator.", target.removeprefix("torch.ops."))

    def _step(self, node: Mapping[str, Any]) -> Step:
        target = self._target(node)
        arguments, keywords = [], {}
        scope = self._scope(node.get("metadata", {}).get("nn_module_stack", ""))
        for each in node["inputs"]:
            value = self._own(self._argument(each["arg"], target), scope, each["name"])
            if each.get("kind") == 2:
                keywords[each["name"]] = value
            else:
                arguments.append(value)
        return Step(target, tuple(arguments), keywords, self._results(node), scope)

    def _own(self, value: Any, scope: tuple[Call, ...], name: str) -> Any:
        """Of a tensor under two paths, which the exporter names by one of them, the module's own."""
        if not isinstance(value, Held) or not scope:
            return value
        own = f"{scope[-1].path}.{name}"
        return Held(own) if own in self.held and self.held[own] is self.held[value.path] else value

    def _results(self, node: Mapping[str, Any]) -> tuple[str, ...]:
        names: list[str] = []
        for output in node["outputs"]:
            ((kind, said),) = output.items()
            if kind == "as_tensors":
                names += [each["name"] for each in said]
            elif kind == "as_tensor":
                names.append(said["name"])
            elif kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
                names.append(said["as_name"])
            elif kind != "as_none":
                raise Unreadable(f"{self.file}: {node['target']} gives {kind}, which is not read")
        return tuple(map(str, names))

    def _argument(self, argument: Mapping[str, Any], target: str) -> Any:
        ((kind, value),) = argument.items()
        if kind in _SIMPLE:
            return value
        if kind == "as_none":
            return None
        if kind == "as_tensor":
            return self._named(value["name"])
        if kind in ("as_tensors", "as_nested_tensors"):
            return [self._named(each["name"]) for each in value]
        if kind == "as_optional_tensors":
            return [self._argument(each, target) for each in value]
        if kind in ("as_sym_int", "as_sym_float", "as_sym_bool"):
            return self._size(value)
        if kind in ("as_sym_ints", "as_sym_floats"):
            return [self._size(each) for each in value]
        if kind == "as_scalar_type":
            found = dtype_of(value, self.file)
            return torch.float32 if found.is_floating_point else found
        if kind == "as_device":
            return torch.device("cpu")
        if kind == "as_memory_format":
            return _of_torch(value, "_SERIALIZE_TO_TORCH_MEMORY_FORMAT")
        if kind == "as_layout":
            return _of_torch(value, "_SERIALIZE_TO_TORCH_LAYOUT")
        raise Unreadable(f"{self.file}: {target} is given {kind.removeprefix('as_')}, which is not read")

    def _size(self, value: Mapping[str, Any]) -> Any:
        ((kind, said),) = value.items()
        return Ref(str(said)) if kind == "as_name" else said

    def _named(self, name: str) -> Ref | Held:
        return Held(self.paths[name]) if name in self.paths else Ref(str(name))

    def _scope(self, text: str) -> tuple[Call, ...]:
        """`L__self__layer1.0,layer1.0,package.Block;...`; the key of a later call ends with `@1`."""
        calls = []
        for entry in text.split(";") if text else []:
            key, path, kind = _three(entry)
            again = re.search(r"@(\d+)$", key)
            kind = plain_kind(kind)
            if path:
                calls.append(Call(plain_path(re.sub(r"@\d+$", "", path)), kind, int(again.group(1)) if again else 0))
            else:
                self.kind = kind
        return tuple(calls)

    # -- what it returns

    def _outputs(self) -> tuple[str, ...]:
        names = []
        for spec in self.signature["output_specs"]:
            ((kind, said),) = spec.items()
            if kind != "user_output":
                raise Unreadable(
                    f"{self.file} has an output of kind {kind}: the model changes what it holds or is given"
                )
            name = said["arg"].get("as_tensor", {}).get("name")
            if name is None or name in self.paths:
                raise Unreadable(f"{self.file}: the model returns what is no computed tensor; it must return tensors")
            names.append(name)
        return tuple(names)

    def _keys(self, count: int) -> tuple[str, ...]:
        """Of a dictionary of tensors; none where the model returns something else."""
        signature = self.calls[0].get("signature") if self.calls else None
        spec = json.loads(signature["out_spec"])[1] if signature else {}
        if not str(spec.get("type")).endswith((".dict", ".OrderedDict")):
            return ()
        keys = [re.sub(r"[^0-9A-Za-z_]", "_", str(key)) for key in json.loads(spec["context"])]
        leaves = all(each["type"] is None for each in spec["children_spec"])
        return tuple(keys) if leaves and len(keys) == count == len(set(keys)) else ()


def _three(entry: str) -> tuple[str, str, str]:
    """Commas may be in keys of dictionaries of modules, but not in names of classes."""
    rest, _, kind = entry.rpartition(",")
    key, _, path = rest.partition(",")
    return key, path, kind


def _of_torch(number: int, table: str) -> Any:
    from torch._export.serde import serialize

    return getattr(serialize, table)[number]
