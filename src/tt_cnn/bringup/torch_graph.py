# SPDX-License-Identifier: Apache-2.0
"""The torch model as a list of ops: exported by `torch.export`, read into nodes with named arguments.

Every node knows the module call that it was made in (`layer1.0.conv1`) and the line of the user's code. Ops that torch
runs in place are plain ops here: whoever reads the tensor afterwards reads their result.
"""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import fx, nn

from tt_cnn.bringup.functional_form import Op, returned, usual, without_writes
from tt_cnn.bringup.module_calls import CallNames, ModuleCall
from tt_cnn.bringup.own_lowerings import registered_modules_closed

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter, buffer or constant of the model."""

    path: str
    shape: Shape
    constant: torch.Tensor | None = field(default=None, compare=False, hash=False)
    """The values, of a tensor that the model's code made and no module holds."""


@dataclass(eq=False)
class TorchNode:
    """One op."""

    name: str
    op: str
    """`conv2d`: the name without its overload; in-place ops as the others."""
    target: str
    """`aten.conv2d.default`, for reports."""
    arguments: dict[str, Any]
    """By the names of the op's schema, defaults included; tensors are nodes or parameters."""
    shape: Shape | tuple[Shape, ...]
    dtype: Any
    stack: tuple[ModuleCall, ...]
    """The calls that it was made in, the model's own first."""
    line: str
    """The user's line of code."""
    fused: dict[str, Any] = field(default_factory=dict)
    """What passes have drawn into it: a batch norm's module, an activation, ..."""

    @property
    def call(self) -> ModuleCall:
        return self.stack[-1]

    def inputs(self) -> Iterator[TorchNode]:
        yield from _nodes_in(self.arguments)

    def replace_input(self, old: TorchNode, new: TorchNode) -> None:
        self.arguments = _replaced(self.arguments, old, new)

    def __repr__(self) -> str:
        return f"{self.name}: {self.target} {self.shape} in {self.call.path or 'the model'}"


@dataclass
class TorchGraph:
    """Nodes in the order in which torch runs them."""

    model: nn.Module
    inputs: list[TorchNode]
    nodes: list[TorchNode]
    outputs: list[TorchNode]
    single_output: bool
    output_names: tuple[str, ...]

    def users(self) -> dict[TorchNode, list[TorchNode]]:
        """Of each node those that read it, in order."""
        found: dict[TorchNode, list[TorchNode]] = {node: [] for node in (*self.inputs, *self.nodes)}
        for node in self.nodes:
            for source in dict.fromkeys(node.inputs()):
                found[source].append(node)
        return found

    def replace(self, old: TorchNode, new: TorchNode) -> None:
        """All that read `old` read `new`."""
        for node in self.nodes:
            if node is not new:
                node.replace_input(old, new)
        self.outputs = [new if each is old else each for each in self.outputs]

    def drop(self, *nodes: TorchNode) -> None:
        gone = set(nodes)
        self.nodes = [node for node in self.nodes if node not in gone]


class ExportFailed(ValueError):
    """`torch.export` could not follow the model."""


class WritesIntoView(ExportFailed):
    """An op in place writes into a part of a tensor, or into another view of it, that is read again."""


def export_graph(model: nn.Module, inputs: Sequence[torch.Tensor]) -> TorchGraph:
    """The ops of the model in eval mode, for inputs of these shapes."""
    return read_program(exported_program(model, inputs), model)


def exported_program(model: nn.Module, inputs: Sequence[torch.Tensor]) -> torch.export.ExportedProgram:
    """As the model's code calls ops; without ops in place where these write into views."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), registered_modules_closed(model, inputs), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about how the model is written: it runs, or it fails
            program = torch.export.export(model, tuple(inputs))
    except Exception as error:  # torch.export raises whatever the model's own code does
        raise ExportFailed(_why(error, model)) from error
    finally:
        model.train(was_training)
    try:
        read_program(program, model)
    except WritesIntoView:
        return without_writes(program)
    return program


def read_program(program: torch.export.ExportedProgram, model: nn.Module) -> TorchGraph:
    return _Reader(program, model).read()


class _Reader:
    def __init__(self, program: torch.export.ExportedProgram, model: nn.Module) -> None:
        self.program, self.model = program, model
        self.known: dict[fx.Node, Any] = {}
        self.names = CallNames(model)
        self.modules = dict(model.named_modules(remove_duplicate=False))
        self.roots: dict[fx.Node, fx.Node] = {}
        """Of each view the tensor whose memory it may share."""
        self.overwritten: dict[fx.Node, str] = {}
        """Tensors that an in-place op has changed through another view of them, and its line."""

    def read(self) -> TorchGraph:
        signature = self.program.graph_signature
        held = {**signature.inputs_to_parameters, **signature.inputs_to_buffers}
        constants = getattr(signature, "inputs_to_lifted_tensor_constants", {})
        graph = TorchGraph(self.model, [], [], [], False, ())
        for node in self.program.graph.nodes:
            if node.op == "placeholder":
                if node.name in held or node.name in constants:
                    self.known[node] = self._parameter(node, held, constants)
                else:
                    self.known[node] = self._input(node)
                    graph.inputs.append(self.known[node])
            elif node.op == "get_attr":
                self.known[node] = Parameter(str(node.target), _shape(node), self._attribute(str(node.target)))
            elif node.op == "call_function":
                self._add(node, graph)
            elif node.op == "output":
                self._outputs(node, graph)
        return graph

    def _parameter(self, node: fx.Node, held: Mapping[str, str], constants: Mapping[str, str]) -> Parameter:
        if node.name in held:
            return Parameter(held[node.name], _shape(node))
        path = constants[node.name]
        return Parameter(path, _shape(node), self.program.constants[path])

    def _attribute(self, path: str) -> torch.Tensor | None:
        value: Any = self.program.graph_module
        for part in path.split("."):
            value = getattr(value, part, None)
        return value if isinstance(value, torch.Tensor) else None

    def _input(self, node: fx.Node) -> TorchNode:
        kind = node.meta["val"].dtype
        return TorchNode(node.name, "input", "input", {}, _shape(node), kind, (self._root(),), "")

    def _add(self, node: fx.Node, graph: TorchGraph) -> None:
        if getattr(node.target, "__name__", "") == "_assert_tensor_metadata.default":
            return
        target = node.target
        if isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise ExportFailed(
                f"{_line(node) or node.name}: a number is read from a tensor ({target}), and what is computed with it "
                "differs from input to input; keep it a tensor (x.max() without .item())"
            )
        schema = getattr(target, "_schema", None)
        given = [self._value(each) for each in node.args]
        named = {key: self._value(each) for key, each in node.kwargs.items()}
        if schema is None:  # operator.getitem and its like
            op, text = str(getattr(target, "__name__", target)), str(getattr(target, "__name__", target))
            arguments: dict[str, Any] = {"self": given[0], **{str(i): v for i, v in enumerate(given[1:])}, **named}
        else:
            packet = str(schema.name).split("::")[-1]
            op, text = packet.rstrip("_") if not packet.startswith("_") else packet, str(target)
            names = [argument.name for argument in schema.arguments]
            defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
            arguments = {**defaults, **dict(zip(names, given, strict=False)), **named}
        stack = self._stack(node)
        arguments = {name: self._as_own(name, value, stack[-1].path) for name, value in arguments.items()}
        dtype = getattr(node.meta.get("val"), "dtype", None)
        source = arguments.get("self")
        if op == "getitem" and isinstance(source, TorchNode) and source.op == "batch_norm":
            self.known[node] = source
            return
        op, text, arguments, shape = usual(Op(op, text, arguments, _shape(node)))
        made = TorchNode(node.name, op, text, arguments, shape, dtype, stack, _line(node))
        self.known[node] = made
        graph.nodes.append(made)
        first = node.args[0] if node.args else None
        if not isinstance(first, fx.Node):
            return
        writes = schema is not None and schema.name.endswith("_") and not schema.name.endswith("__")
        if writes or op in VIEWS or (schema is not None and any(each.alias_info for each in schema.returns)):
            self.roots[node] = self.roots.get(first, first)
        if writes and not (op in DROPOUTS and not arguments.get("train")):
            self._written(first, node, made)

    def _as_own(self, name: str, value: Any, path: str) -> Any:
        """A parameter that several modules hold by the name that it has in the one that is called; torch has one for
        all."""
        if not isinstance(value, Parameter) or value.constant is not None or not path:
            return value
        own = getattr(self.modules.get(path), name, None)
        if own is None or own is not _tensor_of(self.model, value.path):
            return value
        return Parameter(f"{path}.{name}", value.shape)

    def _written(self, node: fx.Node, result: fx.Node, made: TorchNode) -> None:
        """Readers of a tensor that was written in place read the result from now on; nobody may read other views of
        its memory: what they would see is not followed."""
        previous, root = self.known[node], self.roots.get(node, node)
        for other, value in self.known.items():
            if value is previous:
                self.known[other] = made
            elif other is not result and self.roots.get(other, other) is root:
                self.overwritten[other] = made.line or made.name

    def _value(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            if value in self.overwritten:
                raise WritesIntoView(
                    f"{self.overwritten[value]}: an in-place op writes into a view of a tensor that is read again; "
                    "write it without the trailing underscore (or inplace=False)"
                )
            return self.known[value]
        if isinstance(value, (list, tuple)):
            return type(value)(self._value(each) for each in value)
        return value

    def _stack(self, node: fx.Node) -> tuple[ModuleCall, ...]:
        calls: list[ModuleCall] = []
        for key, (path, kind) in (node.meta.get("nn_module_stack") or {}).items():
            plain = re.sub(r"@\d+$", "", path)
            if plain and not calls:
                calls.append(self._root())
            qualified = kind if isinstance(kind, str) else _qualified(kind)
            name = self.names.name(calls[-1], plain, key) if plain else ""
            calls.append(ModuleCall(plain, qualified.rsplit(".", 1)[-1], qualified, name))
        return tuple(calls) or (self._root(),)

    def _root(self) -> ModuleCall:
        return ModuleCall("", type(self.model).__name__, _qualified(type(self.model)))

    def _outputs(self, node: fx.Node, graph: TorchGraph) -> None:
        found = [self._value(each) for each in returned(self.program, cast(Sequence[fx.Node], node.args[0]))]
        for number, each in enumerate(found, 1):
            if not isinstance(each, TorchNode):
                what = f"the parameter {each.path}" if isinstance(each, Parameter) else f"the constant {each!r}"
                raise ExportFailed(
                    f"output {number} of {len(found)} is {what}; a model must return tensors that it computes"
                )
        graph.outputs = found
        spec = self.program.call_spec.out_spec
        graph.single_output = len(found) == 1 and spec.type is None if spec is not None else len(found) == 1
        graph.output_names = _output_names(spec, len(found))


VIEWS = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "permute",
        "transpose",
        "t",
        "select",
        "slice",
        "expand",
        "chunk",
        "split",
        "unbind",
        "narrow",
        "getitem",
        "view_as",
        "reshape_as",
        "expand_as",
        "contiguous",
        "to",
        "detach",
        "alias",
        "dropout",
    ]
)
"""Ops whose result shares the memory of their input in torch, or may do so."""
DROPOUTS = frozenset(["dropout", "feature_dropout", "alpha_dropout"])


def _output_names(spec: Any, count: int) -> tuple[str, ...]:
    """Keys of a dictionary where the model returns one; else `output`, or `output1`, `output2`, ..."""
    keys = getattr(spec, "context", None)
    is_dict = getattr(spec, "type", None) is not None and "dict" in str(spec.type).lower()
    if is_dict and isinstance(keys, list) and len(keys) == count:
        return tuple(re.sub(r"\W", "_", str(key)) for key in keys)
    return ("output",) if count == 1 else tuple(f"output{index + 1}" for index in range(count))


def _shape(node: fx.Node) -> Any:
    value = node.meta.get("val")
    if isinstance(value, (list, tuple)):
        return tuple(tuple(int(size) for size in each.shape) for each in value)
    return tuple(int(size) for size in value.shape) if isinstance(value, torch.Tensor) else ()


def _qualified(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


_OTHERS = re.compile(r"/torch/|/tt_cnn/bringup/imported/")
"""Code that is not the user's."""


def _line(node: fx.Node) -> str:
    """The last line of the user's code."""
    found = ""
    lines = (node.meta.get("stack_trace") or "").split("\n")
    for index, text in enumerate(lines):
        place = re.match(r'\s*File "(.*)", line (\d+)', text)
        if place and not _OTHERS.search(place.group(1)) and index + 1 < len(lines):
            found = f"{place.group(1).rsplit('/', 1)[-1]}:{place.group(2)}: {lines[index + 1].strip()}"
    return found


def _why(error: Exception, model: nn.Module) -> str:
    """What torch said, and the line of the model that it was about."""
    said = str(error).strip().split("\n")[0] or type(error).__name__
    blamed = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if "/torch/" not in frame.filename and "/tt_cnn/bringup/" not in frame.filename and frame.name == "forward":
            blamed = f"{frame.filename}:{frame.lineno}: {frame.line}"
    user = re.findall(r'File "([^"]+)", line (\d+), in (\w+)\n\s*(.*)', str(error))
    for filename, number, _, text in user:
        if "/torch/" not in filename:
            blamed = f"{filename}:{number}: {text.strip()}"
    where = f"\n  at {blamed}" if blamed else ""
    return (
        f"torch.export cannot follow {type(model).__name__}: {said}{where}\n"
        "  Python that depends on the values of tensors (if x.sum() > 0, x.item()) cannot be exported: take it out of "
        "forward, or register the module with a lowering of its own (tt_cnn.bringup.own_lowerings)."
    )


def _tensor_of(model: nn.Module, path: str) -> Any:
    """The parameter or buffer of this path."""
    module, _, name = path.rpartition(".")
    return getattr(model.get_submodule(module), name, None)


def first_input(node: TorchNode) -> TorchNode | None:
    """The tensor that an op of one tensor works on; None for a parameter."""
    value = node.arguments.get("self", node.arguments.get("input"))
    return value if isinstance(value, TorchNode) else None


def _nodes_in(value: Any) -> Iterator[TorchNode]:
    if isinstance(value, TorchNode):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _nodes_in(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _nodes_in(each)


def _replaced(value: Any, old: TorchNode, new: TorchNode) -> Any:
    if value is old:
        return new
    if isinstance(value, dict):
        return {key: _replaced(each, old, new) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_replaced(each, old, new) for each in value)
    return value
