# SPDX-License-Identifier: Apache-2.0
"""What is drawn of a torch graph: ops with their labels and details, edges, modules as groups."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tt_cnn.bringup.graph_layout import Edge, Group, Leaf
from tt_cnn.bringup.lowering.lowering import scope_of
from tt_cnn.bringup.module_calls import ModuleCall
from tt_cnn.bringup.op_facts import (
    dtype_text,
    multiply_adds,
    parameter_paths,
    parameter_sizes,
    shape_text,
    shapes,
    short_arguments,
)
from tt_cnn.bringup.outcomes import Outcome
from tt_cnn.bringup.summary import drawn_in
from tt_cnn.bringup.torch_graph import VIEWS, TorchGraph, TorchNode

_FAMILIES = (
    ("compute", re.compile(r"conv|linear|matmul|^b?mm$|addmm|attention|einsum")),
    ("window", re.compile(r"pool|upsample|interpolate|grid_sampl|mean|sum|amax|amin")),
    ("join", re.compile(r"^(cat|concat|stack|add|mul|sub|div|maximum|minimum)")),
    ("norm", re.compile(r"norm|relu|silu|gelu|sigmoid|swish|mish|tanh|softmax|elu|clamp|softplus|exp|pow|sqrt")),
)
FAMILIES = {
    "compute": "convolutions, matmuls, attention",
    "window": "pools, upsampling, reductions",
    "join": "sums, products, joins",
    "norm": "norms and activations of their own",
    "view": "views and moves",
    "host": "in torch on the host",
}
_CHARACTER = 6.1
"""Width of one in a node's font, rather too wide than too narrow."""
_LINE = 13.0


@dataclass(frozen=True)
class DrawnOp:
    """A node of the picture."""

    name: str
    title: str
    where: str
    """Its module within the box that it stands in, and the shape of what it makes."""
    family: str
    facts: tuple[tuple[str, str], ...]
    fused: tuple[str, ...] = ()
    """Names of exported ops that are drawn in it."""

    @property
    def leaf(self) -> Leaf:
        lines = [self.title, self.where] if self.where else [self.title]
        width = max(70.0, 16 + _CHARACTER * max(map(len, lines)))
        return Leaf(self.name, width, 9 + _LINE * len(lines))


@dataclass(frozen=True)
class Picture:
    """All that is drawn, before it has places."""

    ops: dict[str, DrawnOp]
    edges: list[Edge]
    root: Group
    left_out: int
    """Ops on parameters alone, which run when the model is made."""


def picture_of(graph: TorchGraph, outcomes: Mapping[str, Outcome] | None = None) -> Picture:
    """`graph` as exported or after the passes; `outcomes` tell what each op became on the card."""
    known = outcomes or {}
    changing = _changing(graph)
    shown = [node for node in graph.nodes if node in changing]
    fused = _fused_names(known)
    sizes = parameter_sizes(graph)
    ops: dict[str, DrawnOp] = {}
    root = Group("")
    for node in graph.inputs:
        ops[node.name] = DrawnOp(node.name, node.name, _shapes(node), "end", (("input", _shapes(node)),))
        root.items.append(ops[node.name].leaf)
    for scope, node in _grouped(shown, root):
        ops[node.name] = _drawn(node, scope, known, fused.get(node.name, ()), sizes)
        _group_of(root, scope).items.append(ops[node.name].leaf)
    edges = [
        (source.name, node.name) for node in shown for source in dict.fromkeys(_read_by(node)) if source in changing
    ]
    for name, node in zip(graph.output_names, graph.outputs, strict=True):
        key = f"output {name}"
        ops[key] = DrawnOp(key, name, _shapes(node), "end", (("output", _shapes(node)),))
        root.items.append(ops[key].leaf)
        edges.append((node.name, key))
    return Picture(ops, edges, root, len(graph.nodes) - len(shown))


def _changing(graph: TorchGraph) -> set[TorchNode]:
    """Inputs, and what depends on them."""
    found = set(graph.inputs)
    for node in graph.nodes:
        if any(source in found for source in _read_by(node)):
            found.add(node)
    return found


def _read_by(node: TorchNode) -> Iterator[TorchNode]:
    yield from node.inputs()
    yield from (each for each in node.fused.get("biases", ()) if isinstance(each, TorchNode))


def _fused_names(outcomes: Mapping[str, Outcome]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for name, outcome in outcomes.items():
        if outcome.kind == "fused":
            found.setdefault(outcome.into, []).append(name)
    return {into: tuple(names) for into, names in found.items()}


# --- modules --------------------------------------------------------------------------------------------------------

Scope = tuple[ModuleCall, ...]


def _grouped(nodes: list[TorchNode], root: Group) -> Iterator[tuple[Scope, TorchNode]]:
    """Each op with the boxes that it stands in. A box is opened where its ops begin; one of a single op is none.

    Calls are nested in time, so the ops of a call follow each other, and boxes never depend on each other both ways.
    """
    runs = _Runs([scope_of(node)[1:] for node in nodes])
    open_scope: Scope = ()
    for index, node in enumerate(nodes):
        scope = tuple(call for depth, call in enumerate(runs.scopes[index]) if runs.length(index, depth) > 1)
        common = 0
        while common < min(len(scope), len(open_scope)) and scope[common] == open_scope[common]:
            common += 1
        for depth in range(common, len(scope)):
            inside = scope[depth - 1].name if depth else ""
            label = f"{_within(scope[depth].name, inside)}  {scope[depth].kind}"
            _group_of(root, scope[:depth]).items.append(Group(label))
        open_scope = scope
        yield scope, node


class _Runs:
    """How many ops in a row stand in the same call."""

    def __init__(self, scopes: list[Scope]) -> None:
        self.scopes = scopes

    def length(self, index: int, depth: int) -> int:
        """Ops around `index` that share the first `depth + 1` calls, but no call that holds exactly the same ops."""
        wanted = self.scopes[index][: depth + 1]
        first, last = self._bounds(index, wanted)
        if depth + 1 < len(self.scopes[index]) and self._bounds(index, self.scopes[index][: depth + 2]) == (
            first,
            last,
        ):
            return 1  # the inner box says it all
        return last - first

    def _bounds(self, index: int, wanted: Scope) -> tuple[int, int]:
        first = last = index
        while first and self.scopes[first - 1][: len(wanted)] == wanted:
            first -= 1
        while last < len(self.scopes) and self.scopes[last][: len(wanted)] == wanted:
            last += 1
        return first, last


def _group_of(root: Group, scope: Scope) -> Group:
    """The box that is open at this depth: the last one."""
    here = root
    for _ in scope:
        here = next(item for item in reversed(here.items) if isinstance(item, Group))
    return here


def _within(path: str, outer: str) -> str:
    return path[len(outer) + 1 :] if outer and path.startswith(f"{outer}.") else path


# --- labels ---------------------------------------------------------------------------------------------------------


def _drawn(
    node: TorchNode, scope: Scope, outcomes: Mapping[str, Outcome], fused: tuple[str, ...], sizes: dict[str, int]
) -> DrawnOp:
    outcome = outcomes.get(node.name)
    family = "host" if outcome is not None and outcome.kind == "fallback" else _family(node)
    if outcome is not None and outcome.kind == "decomposed":
        family += " decomposed"
    inner = _within(node.call.name, scope[-1].name if scope else "")
    if scope and node.call.name == scope[-1].name:
        inner = ""
    where = " ".join(part for part in (inner, _shapes(node)) if part)
    return DrawnOp(node.name, op_title(node), where, family, tuple(_facts(node, outcome, fused, sizes)), fused)


def _family(node: TorchNode) -> str:
    if node.op in VIEWS:
        return "view"
    return next((family for family, pattern in _FAMILIES if pattern.search(node.op)), "view")


def op_title(node: TorchNode) -> str:
    """`conv2d 3x3 /2 + BN + ReLU`."""
    own = node.arguments
    parts = [node.op]
    weight = own.get("weight")
    if "conv" in node.op and weight is not None:
        parts.append(shape_text(tuple(weight.shape[2:])))
    elif "kernel_size" in own:
        kernel = own["kernel_size"]
        parts.append(shape_text(tuple(kernel) if isinstance(kernel, (list, tuple)) else (kernel,)))
    stride = own.get("stride")
    if isinstance(stride, (list, tuple)) and set(stride) - {1}:
        parts.append("/" + (str(stride[0]) if len(set(stride)) == 1 else shape_text(tuple(stride))))
    groups = own.get("groups", 1)
    if isinstance(groups, int) and groups > 1 and weight is not None:
        parts.append("depthwise" if groups == weight.shape[0] and weight.shape[1] == 1 else f"groups {groups}")
    short = {"batch_norm": "BN"}
    fused = [short.get(each, re.sub(r"^nn\.(\w+)\(.*\)$", r"\1", each)) for each in drawn_in(node)]
    return " + ".join([" ".join(parts), *fused])


def _facts(
    node: TorchNode, outcome: Outcome | None, fused: tuple[str, ...], sizes: dict[str, int]
) -> Iterator[tuple[str, str]]:
    yield "op", node.target if node.op in node.target else f"{node.op} (of {node.target})"
    yield "module", f"{node.call.name or 'the model'} ({node.call.kind})"
    for what, said in (("arguments", short_arguments(node)), ("drawn in", ", ".join(drawn_in(node)))):
        if said:
            yield what, said
    if fused:
        yield "exported ops that are part of it", ", ".join(fused)
    yield "inputs", "\n".join(f"{source.name} {_shapes(source)}" for source in dict.fromkeys(node.inputs()))
    yield "output", f"{_shapes(node)} {dtype_text(node.dtype)}"
    read = sum(sizes[path] for path in parameter_paths(node, sizes))
    if read:
        yield "parameters", f"{read:,}"
    if multiply_adds(node):
        yield "multiply-adds", f"{multiply_adds(node) / 1e6:,.2f} M"
    lines = dict.fromkeys([node.line, *node.fused.get("lines", ())])
    if any(lines):
        yield "in the model's code", "\n".join(line for line in lines if line)
    if outcome is not None:
        yield "on the card", str(outcome) or outcome.kind
        if outcome.layer_names:
            yield "layers", ", ".join(outcome.layer_names)


def _shapes(node: TorchNode) -> str:
    return " ".join(shape_text(shape) for shape in dict.fromkeys(shapes(node)))
