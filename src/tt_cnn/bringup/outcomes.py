# SPDX-License-Identifier: Apache-2.0
"""What became of each op of the exported graph: a layer, a part of one, nothing, or torch on the host."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tt_cnn.bringup.graph_copy import copy_graph
from tt_cnn.bringup.lowering.program import LayerSpec, Program
from tt_cnn.bringup.passes import drop_nothing
from tt_cnn.bringup.torch_graph import TorchGraph, TorchNode

Kind = Literal["mapped", "fused", "view", "decomposed", "constant", "dropped", "fallback"]

MEANINGS: dict[Kind, str] = {
    "mapped": "a layer of its own",
    "fused": "folded or fused into another op",
    "view": "a view, which costs nothing",
    "decomposed": "done by other ops",
    "constant": "does not depend on the input; computed when the model is made",
    "dropped": "does nothing in eval mode, or nobody reads it",
    "fallback": "in torch on the host",
}


@dataclass(frozen=True)
class Outcome:
    """Of one op."""

    kind: Kind
    layers: tuple[str, ...] = ()
    """Layers that do it, as `LayerFactory` calls them; `ttnn.pow` for a plain function of TT-NN."""
    layer_names: tuple[str, ...] = ()
    """Their names in the generated code: `layer1.0.conv1`."""
    into: str = ""
    """The op, by its name in the graph, that does this one's work too."""
    text: str = ""
    """How it is decomposed, or why it falls back."""

    def __str__(self) -> str:
        if self.kind == "fused":
            return f"fused into {self.into}"
        said = {"mapped": "", "view": "a view", "constant": "computed when the model is made", "fallback": "in torch"}
        parts = [said.get(self.kind, self.kind), self.text, ", ".join(self.layers) if self.kind != "fallback" else ""]
        return ": ".join(part for part in parts if part)


def outcomes(exported: TorchGraph, program: Program) -> dict[str, Outcome]:
    """By the op's name. `exported` is the graph before the passes: `copy_graph(graph)`, then `lower(graph)`."""
    kept = {node.name: node for node in program.graph.nodes}
    changing = _depending_on_input(exported)
    idle = _idle(exported)
    read = _read(exported)
    found: dict[str, Outcome] = {}
    by_node = _layers(program)
    for node in exported.nodes:
        if node.name in kept:
            found[node.name] = _of_kept(node, program, by_node.get(node.name, []), node.name in changing)
        elif node.name not in read:
            found[node.name] = Outcome("dropped", text="nobody reads it")
        elif node.name not in changing:
            found[node.name] = Outcome("constant")
        elif node.name in idle:
            found[node.name] = Outcome("dropped", text="does nothing in eval mode")
    _add_absorbed(exported, kept, found)
    _add_drawn_in(exported, found)
    return found


def _layers(program: Program) -> dict[str, list[LayerSpec]]:
    found: dict[str, list[LayerSpec]] = {}
    for statement in program.statements:
        found.setdefault(statement.node.name, []).append(statement.layer)
    return found


def layer_text(layer: LayerSpec) -> str:
    return f"ttnn.{layer.arguments[0]}" if layer.method == "function" else layer.method


def _of_kept(node: TorchNode, program: Program, layers: list[LayerSpec], changing: bool) -> Outcome:
    texts = {note.kind: note.text for note in program.notes if note.node.name == node.name}
    called = tuple(dict.fromkeys(layer_text(layer) for layer in layers))
    names = tuple(layer.name for layer in layers)
    if "fallback" in texts:
        return Outcome("fallback", called, names, text=texts["fallback"])
    if not changing:
        return Outcome("constant")
    if "decomposed" in texts:
        return Outcome("decomposed", called, names, text=texts["decomposed"])
    return Outcome("mapped", called, names) if called else Outcome("view")


def _add_absorbed(exported: TorchGraph, kept: dict[str, TorchNode], found: dict[str, Outcome]) -> None:
    """Ops behind one that computes their result: batch norms and activations."""
    by_name = {node.name: node for node in exported.nodes}
    for name, keeper in kept.items():
        result = by_name.get(str(keeper.fused.get("result", name)))
        waiting = [result] if result is not None and result.name != name else []
        while waiting:
            node = waiting.pop()
            if node.name in kept or node.op == "input":
                continue
            found.setdefault(node.name, Outcome("fused", into=name))
            waiting += node.inputs()


def _add_drawn_in(exported: TorchGraph, found: dict[str, Outcome]) -> None:
    """Ops before one that does their work: padding, the pieces of an attention, the gate of a SiLU."""
    users = exported.users()
    for node in reversed(exported.nodes):
        if node.name in found:
            continue
        waiting, into = list(users[node]), ""
        while waiting and not into:
            user = waiting.pop(0)
            outcome = found[user.name]
            if outcome.kind == "dropped":
                waiting += users[user]
            else:
                into = outcome.into if outcome.kind == "fused" else user.name
        found[node.name] = Outcome("fused", into=into) if into else Outcome("dropped", text="nobody reads it")


def _depending_on_input(graph: TorchGraph) -> set[str]:
    found = {node.name for node in graph.inputs}
    for node in graph.nodes:
        if any(source.name in found for source in node.inputs()):
            found.add(node.name)
    return found


def _idle(graph: TorchGraph) -> set[str]:
    """What the first pass takes out of a copy."""
    left = copy_graph(graph)
    drop_nothing(left)
    return {node.name for node in graph.nodes} - {node.name for node in left.nodes}


def _read(graph: TorchGraph) -> set[str]:
    found = {node.name for node in graph.outputs}
    for node in reversed(graph.nodes):
        if node.name in found:
            found |= {source.name for source in node.inputs()}
    return found
