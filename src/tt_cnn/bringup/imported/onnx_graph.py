# SPDX-License-Identifier: Apache-2.0
"""ONNX nodes as calls of torch's ops.

What depends on constants alone is computed by ONNX's reference; the shapes of all else are torch's own, on tensors
without values, and must be those that ONNX infers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tt_cnn.bringup.imported import onnx_elementwise, onnx_layers, onnx_movement
from tt_cnn.bringup.imported.graph import Call, Held, ImportedGraph, Ref, Step, Unreadable, plain_path
from tt_cnn.bringup.imported.onnx_file import inputs_of, load_onnx, onnx_package, opset_of, shape_of
from tt_cnn.bringup.imported.onnx_names import class_of_model, scope_of, with_classes
from tt_cnn.bringup.imported.onnx_node import RULES, OnnxNode, Refused
from tt_cnn.bringup.imported.onnx_patterns import DRAWN, draw_together
from tt_cnn.bringup.imported.ops import check_ops, not_taken, op_of

RULE_FILES = (onnx_elementwise, onnx_layers, onnx_movement)
"""Importing them registers their rules."""
LARGEST_FOLDED = 2**27
"""Elements of a constant that is computed."""
_BY_EXPORTERS = re.compile(r"^(val|const|constant|initializer|tensor|onnx|lifted_tensor|scalar|_)\w*$", re.IGNORECASE)
"""Names of constants that say nothing."""
_RANDOM = frozenset(
    ["RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"]
)


def read_onnx(file: Path, shapes: Sequence[tuple[int, ...]] | None = None) -> ImportedGraph:
    """The file's graph, for inputs of these shapes; without them it must say its own."""
    model = load_onnx(file, shapes)
    try:
        graph = OnnxReader(model, file).read()
    except (KeyError, IndexError, TypeError) as error:
        raise Unreadable(f"{file} cannot be read: {error!r}") from error
    check_ops(graph.steps, str(file))
    return graph


class OnnxReader:
    def __init__(self, model: Any, file: Path) -> None:
        self.onnx = onnx_package()
        self.file, self.model, self.opset = file, model, opset_of(model, file)
        self.constants: dict[str, np.ndarray] = {}
        self.same: dict[str, Any] = {}
        self.meta: dict[str, torch.Tensor] = {}
        self.steps: list[Step] = []
        self.held: dict[str, torch.Tensor] = {}
        self.buffers: set[str] = set()
        self.tensors: dict[int, tuple[np.ndarray, torch.Tensor]] = {}
        """By the identity of the values, which are kept for that."""
        self.paths: dict[str, str] = {}
        """Of constants that the module holds, by the names of their values."""
        self.holders: set[str] = set()
        self.made = 0
        self.inferred = {
            each.name: shape_of(each)
            for each in (*model.graph.value_info, *model.graph.output)
            if each.type.tensor_type.HasField("shape")
        }
        self.named = {each.name for each in model.graph.initializer if not _BY_EXPORTERS.match(each.name)}
        """Constants whose names are the source's."""
        self.nodes: list[Any] = list(model.graph.node)
        self.scopes: dict[int, tuple[Call, ...]] = {}
        self.crowd: dict[str, int] = {}
        """How many nodes are in each scope."""

    def read(self) -> ImportedGraph:
        for tensor in self.model.graph.initializer:
            self.constants[tensor.name] = self._array(tensor)
        inputs = {}
        for value in inputs_of(self.model):
            inputs[value.name] = shape_of(value)
            self.meta[value.name] = torch.empty(self._input_shape(value), device="meta")
        nodes = draw_together(self._not_folded(), {each.name for each in self.model.graph.output}, self.constants)
        self.scopes = {id(node): scope_of(node) for node in nodes}
        for node in nodes:
            for call in self.scopes[id(node)]:
                self.crowd[call.path] = self.crowd.get(call.path, 0) + 1
        self._convert(nodes)
        self.steps = with_classes(_in_runs(self.steps))
        outputs = tuple(self._output(value) for value in self.model.graph.output)
        names = [re.sub(r"[^0-9A-Za-z_]", "_", value.name) for value in self.model.graph.output]
        named = len(names) > 1 and len(set(names)) == len(names) and all(name.isidentifier() for name in names)
        keys = tuple(names) if named else ()
        kind = class_of_model(self.model.graph.node, self.model.graph.name)
        return ImportedGraph(kind, inputs, outputs, keys, self.steps, self.held, frozenset(self.buffers))

    # -- constants

    def _array(self, tensor: Any) -> np.ndarray:
        found = self.onnx.numpy_helper.to_array(tensor)
        return found.astype(np.float32) if _is_float(found) else found

    def _input_shape(self, value: Any) -> tuple[int, ...]:
        kind = value.type.tensor_type.elem_type
        types = self.onnx.TensorProto
        if kind not in (types.FLOAT, types.FLOAT16, types.BFLOAT16, types.DOUBLE):
            name = types.DataType.Name(kind).lower()
            raise Unreadable(f"{self.file}: input {value.name} is {name}; bringup takes inputs of floating point")
        return tuple(size for size in shape_of(value) if size is not None)

    def _not_folded(self) -> list[Any]:
        """Nodes that depend on an input; `Shape` of a computed value is folded when it is reached."""
        depends = set(self.meta)
        kept = []
        for node in self.nodes:
            if node.op_type == "Shape" or any(name in depends for name in node.input) or node.op_type in _RANDOM:
                kept.append(node)
                depends |= set(node.output)
            elif any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute):
                kept.append(node)
            else:
                self._fold(node)
        return kept

    def _fold(self, node: Any) -> None:
        """By ONNX's reference."""
        from onnx.reference import ReferenceEvaluator

        helper = self.onnx.helper
        names = [name for name in dict.fromkeys(node.input) if name]
        given = {name: self.constants[name] for name in names}
        if node.op_type in ("ConstantOfShape", "Expand", "Tile") and node.input:
            sizes = given[node.input[-1]].astype(np.float64)
            if np.prod(np.maximum(sizes, 1)) * max(1, given[node.input[0]].size) > LARGEST_FOLDED:
                raise Unreadable(f"{self.file}: {node.name or node.op_type} makes a constant that is too large")
        kinds = [helper.np_dtype_to_tensor_dtype(value.dtype) for value in given.values()]
        graph = helper.make_graph(
            [node],
            "constant",
            [helper.make_tensor_value_info(name, kind, None) for name, kind in zip(names, kinds, strict=True)],
            [helper.make_empty_tensor_value_info(name) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=self.model.opset_import)
        try:
            found = ReferenceEvaluator(model).run(None, given)
        except Exception as error:
            raise Unreadable(f"{self.file}: {node.name or node.op_type} cannot be computed: {error}") from error
        for name, value in zip([each for each in node.output if each], found, strict=True):
            array = np.asarray(value)
            self.constants[name] = array.astype(np.float32) if _is_float(array) else array

    # -- nodes

    def _convert(self, nodes: list[Any]) -> None:
        """All of them; those that are refused, in one error."""
        refused: dict[str, int] = {}
        lost: set[str] = set()
        for node in nodes:
            name = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx", DRAWN) else node.op_type
            why = ""
            if name not in RULES and node.op_type != "Shape":
                why = name
            elif not lost & set(node.input):
                why = self._converted(node, name)
            if why:
                refused[why] = refused.get(why, 0) + 1
            if why or lost & set(node.input):
                lost |= set(node.output)
        if refused:
            raise Unreadable(not_taken(str(self.file), refused))

    def _converted(self, node: Any, name: str) -> str:
        """Empty, or why not."""
        if all(each in self.constants for each in node.input if each) and node.input:
            self._fold(node)
            return ""
        if node.op_type == "Shape":
            self._fold_shape(node)
            return ""
        try:
            RULES[name](OnnxNode(self, node))
        except Refused as reason:
            return f"{name}: {reason}" + (f" (at {node.name})" if node.name else "")
        except (RuntimeError, ValueError, NotImplementedError) as error:
            said = str(error).strip().split("\n")[0]
            return f"{name}: {said}" + (f" (at {node.name})" if node.name else "")
        return self._unlike(node)

    def _unlike(self, node: Any) -> str:
        """Whether torch gives another shape than ONNX infers; empty where it does not."""
        for name in node.output:
            value = self.meta.get(self.ref(name).name) if name else None
            inferred = self.inferred.get(name)
            if value is not None and inferred is not None and not _fits(inferred, tuple(value.shape)):
                return f"{node.op_type}: {name} is {inferred} in ONNX, and {tuple(value.shape)} in torch"
        return ""

    def _fold_shape(self, node: Any) -> None:
        value = self.ref(node.input[0])
        attributes = {each.name: each.i for each in node.attribute}
        sizes = list(self.meta[value.name].shape)[attributes.get("start", 0) : attributes.get("end")]
        self.constants[node.output[0]] = np.array(sizes, dtype=np.int64)

    def ref(self, name: str) -> Ref:
        value = self.same.get(name, Ref(name))
        return value if isinstance(value, Ref) else Ref(name)

    def emit(self, step: Step) -> None:
        """Noted, and run on tensors without values."""

        def meta(value: Any) -> Any:
            if isinstance(value, Ref):
                return self.meta[value.name]
            if isinstance(value, Held):
                return self.held[value.path].to("meta")
            return [meta(each) for each in value] if isinstance(value, (list, tuple)) else value

        made = op_of(step.target)(*map(meta, step.arguments), **{k: meta(v) for k, v in step.keywords.items()})
        results = list(made) if isinstance(made, (list, tuple)) else [made]
        self.meta.update(zip(step.results, results, strict=False))
        self.steps.append(step)

    # -- what the module holds

    def is_alone(self, scope: tuple[Call, ...]) -> bool:
        return bool(scope) and self.crowd.get(scope[-1].path) == 1

    def hold(self, name: str, scope: tuple[Call, ...]) -> Held:
        """A constant: under its own name where that is a path, else in the module that reads it first."""
        if name not in self.paths:
            own = name in self.named and re.fullmatch(r"[A-Za-z_]\w*(\.\w+)*", name, re.ASCII) is not None
            inside = f"{scope[-1].path}." if scope else ""
            path = plain_path(name) if own else f"{inside}constant"
            number = 2
            while path in self.held or path in self.holders:
                path, number = f"{path.rstrip('0123456789')}{number}", number + 1
            self.paths[name] = self.hold_as(path, self.constants[name], buffer=not own).path
        return Held(self.paths[name])

    def hold_as(self, path: str, values: np.ndarray, buffer: bool = False) -> Held:
        """The same values are one tensor, as they are where weights are shared. Vectors are not: exporters make one of
        those that happen to be equal."""
        known = self.tensors.get(id(values))
        tensor = known[1] if known is not None and values.ndim > 1 else _tensor(values)
        self.tensors[id(values)] = (values, tensor)
        self.held[path] = tensor
        if buffer:
            self.buffers.add(path)
        return Held(path)

    # -- the whole

    def _output(self, value: Any) -> str:
        if value.name in self.constants:
            raise Unreadable(f"{self.file}: the output {value.name} does not depend on the inputs")
        return self.ref(value.name).name


def _in_runs(steps: list[Step]) -> list[Step]:
    """Steps of a module follow each other in a call. Where they do not, a module of one op was called again, and its
    calls are numbered; others are taken apart: an exporter has moved their nodes."""
    while True:
        scattered = _scattered(steps)
        if not scattered:
            return steps
        inside = {call.path for step in steps for call in step.scope[:-1]}
        numbers: dict[str, int] = {}
        last: dict[str, int] = {}
        found = []
        for index, step in enumerate(steps):
            scope = tuple(call for call in step.scope if call.path not in scattered or call.path not in inside)
            if scope and scope[-1].path in scattered:
                path = scope[-1].path
                if last.get(path, -2) < index - 1:
                    numbers[path] = numbers.get(path, -1) + 1
                last[path] = index
                scope = (*scope[:-1], Call(path, scope[-1].kind, numbers[path]))
            found.append(Step(step.target, step.arguments, step.keywords, step.results, scope))
        steps = found


def _scattered(steps: Sequence[Step]) -> set[str]:
    """Paths of calls whose steps do not follow each other."""
    found: set[str] = set()
    seen: dict[Call, int] = {}
    for index, step in enumerate(steps):
        for call in step.scope:
            if seen.get(call, index) < index - 1:
                found.add(call.path)
            seen[call] = index
    return found


def _fits(inferred: tuple[int | None, ...], shape: tuple[int, ...]) -> bool:
    same = len(inferred) == len(shape)
    return same and all(size in (None, other) for size, other in zip(inferred, shape, strict=True))


def _tensor(values: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(np.ascontiguousarray(values).reshape(values.shape).copy())


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype.name in ("bfloat16", "float8_e4m3fn", "float8_e5m2")
