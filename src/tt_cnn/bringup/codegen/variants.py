# SPDX-License-Identifier: Apache-2.0
"""Blocks of one torch class that differ in layers that some of them lack: a shortcut's convolution, a squeeze-excite.

Such a layer takes one tensor and gives one; a block without it goes on with what the layer would have been given. All
these blocks are one class, whose optional layers are there where the table of settings has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tt_cnn.bringup.codegen.blocks import Block, Flow
from tt_cnn.bringup.lowering.program import Statement, Value

Item = Block | Statement
Source = tuple[str, int]
"""Where a tensor comes from: the item's name and which of its outputs, or an input of the block under the name ''."""


@dataclass(frozen=True)
class ItemShape:
    """What an item is, but for the tensors that it is given."""

    name: str
    made: str
    """The code that makes it."""
    call: str
    """How it is called: template, and which of its inputs it must keep."""
    sources: tuple[Source, ...]
    outputs: int


@dataclass(frozen=True)
class BlockShape:
    items: tuple[ItemShape, ...]
    inputs: int
    outputs: tuple[Source, ...]

    @property
    def names(self) -> list[str]:
        return [item.name for item in self.items]


def block_shape(
    block: Block,
    flow: Flow,
    runs: Sequence[Sequence[Item]],
    name_of: Callable[[Sequence[Item]], str],
    made_by: Callable[[Sequence[Item]], str],
) -> BlockShape:
    """`runs` are the block's items, those that one loop goes through together."""
    made: dict[Value, Source] = {value: ("", i) for i, value in enumerate(flow.inputs(block))}
    items = []
    for run in runs:
        name = name_of(run)
        first = run[0]
        outputs = _outputs(run[-1], flow)
        if len(run) == 1 and isinstance(first, Statement):
            sources = tuple(made[flow.tensor(value)] for value in first.inputs if value.constant is None)
        else:
            sources = tuple(made[value] for value in flow.inputs(first))
        for index, value in enumerate(outputs):
            made[value] = (name, index)
        items.append(ItemShape(name, made_by(run), _call(run, flow), sources, len(outputs)))
    return BlockShape(tuple(items), len(flow.inputs(block)), tuple(made[value] for value in flow.outputs(block)))


def _outputs(item: Item, flow: Flow) -> list[Value]:
    return list(item.outputs) if isinstance(item, Statement) else flow.outputs(item)


def _call(run: Sequence[Item], flow: Flow) -> str:
    """How a layer is called, and which of its inputs it must keep; nothing is to be said of blocks and loops."""
    item = run[0]
    if len(run) > 1 or not isinstance(item, Statement):
        return ""
    owners = [value.owner for value in item.inputs]
    kept = [flow.memory_read_after(v, item) or owners.count(v.owner) > 1 for v in item.inputs if v.constant is None]
    return f"{item.call} {kept if item.layer.method in ('add', 'concat') else ''} {len(item.inputs)}"


def lacking(whole: BlockShape, part: BlockShape) -> frozenset[str] | None:
    """The layers of `whole` that `part` does without; None where they differ in something else."""
    missing = frozenset(whole.names) - frozenset(part.names)
    if [name for name in whole.names if name not in missing] != part.names or whole.inputs != part.inputs:
        return None
    by_name = {item.name: item for item in whole.items}
    if any(not by_name[name].sources or by_name[name].outputs != 1 for name in missing):
        return None

    def passed(source: Source) -> Source:
        while source[0] in missing:
            source = by_name[source[0]].sources[0]
        return source

    for item in part.items:
        other = by_name[item.name]
        if (item.made, item.call, item.outputs) != (other.made, other.call, other.outputs):
            return None
        if item.sources != tuple(passed(source) for source in other.sources):
            return None
    return missing if part.outputs == tuple(passed(source) for source in whole.outputs) else None


def grouped(blocks: Mapping[Block, BlockShape]) -> list[tuple[Block, frozenset[str], list[Block]]]:
    """Blocks of one torch class by the class that can serve them: its model, the optional layers, who is served."""
    left = sorted(blocks, key=lambda block: -len(blocks[block].items))
    groups = []
    while left:
        whole = left.pop(0)
        served, optional, rest = [whole], frozenset[str](), []
        for block in left:
            missing = lacking(blocks[whole], blocks[block])
            if missing is None:
                rest.append(block)
            else:
                served.append(block)
                optional |= missing
        groups.append((whole, optional, served))
        left = rest
    return groups
