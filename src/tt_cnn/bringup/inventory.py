# SPDX-License-Identifier: Apache-2.0
"""Which torch ops the model has, and what each of them becomes on the card."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from math import prod
from typing import Any

from tt_cnn.bringup.fallback_issue import Fallback, describe_fallback, issue_text, reproducer
from tt_cnn.bringup.lowering.program import Program, Statement
from tt_cnn.bringup.outcomes import MEANINGS, Kind, Outcome, outcomes
from tt_cnn.bringup.tables import markdown, markdown_table, text_table
from tt_cnn.bringup.torch_graph import TorchGraph

__all__ = ["Fallback", "Inventory", "InventoryRow", "inventory", "issue_text", "reproducer"]

_HEADINGS = ("torch op", "count", "on the card", "how")
_NUMBERS = frozenset({"count"})
_FALLBACKS = ("op", "module", "why", "B to host", "B back", "line")
_BFLOAT16 = 2
_MOVES = frozenset({"rearrange", "view"})
"""Layers that bring an input into the form that the op's own layer takes."""
_ORDER: tuple[Kind, ...] = ("fallback", "decomposed", "mapped", "fused", "view", "constant", "dropped")


@dataclass(frozen=True)
class InventoryRow:
    """Ops of one kind that became the same."""

    op: str
    kind: Kind
    count: int
    becomes: str
    """The layer, or the op that does its work too; how it is decomposed; why it falls back."""


@dataclass(frozen=True)
class Inventory:
    """All torch ops as exported; fallbacks first, each with what it takes to file it."""

    title: str
    rows: tuple[InventoryRow, ...]
    fallbacks: tuple[Fallback, ...]

    @property
    def counts(self) -> dict[Kind, int]:
        """Ops by what became of them."""
        counted: Counter[Kind] = Counter()
        for row in self.rows:
            counted[row.kind] += row.count
        return {kind: counted[kind] for kind in _ORDER if counted[kind]}

    @property
    def totals(self) -> str:
        """The answer first: whether all of it runs on the card."""
        total = sum(row.count for row in self.rows)
        moved = sum(each.bytes_to_host + each.bytes_to_card for each in self.fallbacks)
        if self.fallbacks:
            first = f"{len(self.fallbacks)} of {total} ops fall back to torch, {moved:,} B moved for each inference"
        else:
            first = f"all {total} ops run on the card, no fallback"
        others = ", ".join(f"{number} {kind}" for kind, number in self.counts.items() if kind != "fallback")
        return f"{first}: {others}" if others else first

    def issues(self) -> list[str]:
        """A text for each op that falls back for one reason, with all its places."""
        alike: dict[tuple[str, str, str], list[Fallback]] = {}
        for each in self.fallbacks:
            alike.setdefault((each.target, each.arguments, each.why), []).append(each)
        return [issue_text(first, others) for first, *others in alike.values()]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "title": self.title,
            "counts": dict(self.counts),
            "rows": [asdict(row) for row in self.rows],
            "fallbacks": [{**asdict(each), "why": each.why} for each in self.fallbacks],
            "issues": self.issues(),
        }

    def to_text(self) -> str:
        parts = [f"{self.title}: {self.totals}", text_table(_HEADINGS, self._cells(), _NUMBERS)]
        if self.fallbacks:
            parts.append(text_table(_FALLBACKS, self._fallback_cells(), ("B to host", "B back")))
        return "\n\n".join(parts) + "\n"

    def to_markdown(self) -> str:
        parts = [
            f"# Ops of {markdown(self.title)}",
            f"{self.totals[0].upper()}{self.totals[1:]}.",
            markdown_table(_HEADINGS, self._cells(), _NUMBERS),
        ]
        if self.fallbacks:
            table = markdown_table(_FALLBACKS, self._fallback_cells(), ("B to host", "B back"))
            parts += ["## Fallbacks", table]
        return "\n\n".join(parts) + "\n"

    def _cells(self) -> list[tuple[str, ...]]:
        return [(row.op, str(row.count), MEANINGS[row.kind], row.becomes) for row in self.rows]

    def _fallback_cells(self) -> list[tuple[str, ...]]:
        return [
            (
                f"{each.target} {each.arguments}".strip(),
                each.module or "the model",
                each.why,
                f"{each.bytes_to_host:,}",
                f"{each.bytes_to_card:,}",
                each.line,
            )
            for each in self.fallbacks
        ]


def inventory(exported: TorchGraph, program: Program, *, title: str = "") -> Inventory:
    """`exported` is the graph before the passes, which change it: `copy_graph(graph)`, then `lower(graph)`."""
    found = outcomes(exported, program)
    fallbacks = tuple(_fallback(each, program) for each in program.statements if each.layer.method == "on_host")
    why = {each.name: each.why for each in fallbacks}
    ops = {node.name: node.op for node in program.graph.nodes}
    counted: Counter[tuple[str, Kind, str]] = Counter()
    for node in exported.nodes:
        outcome = found[node.name]
        becomes = why.get(node.name) or _becomes(outcome, ops)
        changed = ops.get(node.name, node.op)
        if changed != node.op and outcome.kind != "fallback":
            becomes = f"{changed}: {becomes}" if becomes and becomes != changed else changed
        counted[node.op, outcome.kind, becomes] += 1
    rows = [InventoryRow(op, kind, number, becomes) for (op, kind, becomes), number in counted.items()]
    rows.sort(key=lambda row: (_ORDER.index(row.kind), -row.count, row.op))
    return Inventory(title or type(exported.model).__name__, tuple(rows), fallbacks)


def _becomes(outcome: Outcome, ops: dict[str, str]) -> str:
    """Without names of single ops, so that ops of one kind stand in one row."""
    if outcome.kind == "fused":
        return ops.get(outcome.into, outcome.into)
    moves = sorted(_MOVES.intersection(outcome.layers))
    own = [layer for layer in outcome.layers if layer not in moves]
    layers = f"{', '.join(own)} after {' and '.join(moves)}" if own and moves else ", ".join(own or moves)
    return ": ".join(part for part in (outcome.text, layers) if part)


def _fallback(statement: Statement, program: Program) -> Fallback:
    to_host = sum(_BFLOAT16 * prod(value.form.shape) for value in statement.inputs)
    to_card = sum(_BFLOAT16 * prod(value.form.shape) for value in statement.outputs)
    return describe_fallback(statement.node, program.graph.model, to_host, to_card)
