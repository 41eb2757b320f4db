# SPDX-License-Identifier: Apache-2.0
"""The lowered statements as a tree of module calls: what becomes a class, what a list, what a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tt_cnn.bringup.lowering.lowering import CONTAINERS
from tt_cnn.bringup.lowering.program import Program, Statement, Value
from tt_cnn.bringup.module_calls import ModuleCall


@dataclass(eq=False)
class Block:
    """One call of a module of the user's: its statements and the calls inside it, in order."""

    call: ModuleCall
    items: list[Block | Statement] = field(default_factory=list)

    def statements(self) -> Iterator[Statement]:
        for item in self.items:
            if isinstance(item, Statement):
                yield item
            else:
                yield from item.statements()


def build_tree(program: Program) -> Block:
    """The model's own block."""
    root = Block(program.statements[0].stack[0])
    opened = [root]
    for statement in program.statements:
        stack = statement.stack
        depth = 1
        while depth < min(len(stack), len(opened)) and stack[depth] == opened[depth].call:
            depth += 1
        del opened[depth:]
        for call in stack[depth:]:
            block = Block(call)
            opened[-1].items.append(block)
            opened.append(block)
        opened[-1].items.append(statement)
    return _simplified(root)


def _simplified(block: Block) -> Block:
    """Containers are part of the block around them, and so is a module that has come to be one layer."""
    items: list[Block | Statement] = []
    for item in block.items:
        if isinstance(item, Statement):
            items.append(item)
            continue
        inner = _simplified(item)
        if inner.call.kind in CONTAINERS or len(inner.items) == 1:
            items += inner.items
        elif inner.items:
            items.append(inner)
    block.items = items
    return block


class Flow:
    """Which tensors go into an item and which come out of it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.produced: dict[Value, int] = {}
        self.read: dict[Value, list[int]] = {}
        for value in program.inputs:
            self.produced[value] = -1
        for index, statement in enumerate(program.statements):
            for value in statement.outputs:
                self.produced[value] = index
        self.place = {statement: index for index, statement in enumerate(program.statements)}
        for index, statement in enumerate(program.statements):
            for value in statement.inputs:
                if value.constant is None:
                    self.read.setdefault(self.tensor(value), []).append(index)
        for value in program.outputs:
            self.read.setdefault(self.tensor(value), []).append(len(program.statements))

    def tensor(self, value: Value) -> Value:
        """The value that a statement made; others are the same tensor as torch sees it further on."""
        while value not in self.produced:
            assert value.memory is not None
            value = value.memory
        return value

    def inputs(self, item: Block | Statement) -> list[Value]:
        """Tensors from outside, in the order of their first use."""
        found: dict[Value, None] = {}
        inside = {statement for statement in _statements(item)}
        places = {self.place[statement] for statement in inside}
        for statement in _statements(item):
            for value in statement.inputs:
                if value.constant is not None:
                    continue
                tensor = self.tensor(value)
                if self.produced[tensor] not in places:
                    found[tensor] = None
        return list(found)

    def outputs(self, item: Block | Statement) -> list[Value]:
        """Tensors that somebody outside reads."""
        statements = list(_statements(item))
        places = {self.place[statement] for statement in statements}
        made = [value for statement in statements for value in statement.outputs]
        return [value for value in made if any(place not in places for place in self.read.get(value, []))]

    def readers_after(self, value: Value, item: Block | Statement) -> bool:
        """Whether somebody reads the tensor after the item."""
        last = max(self.place[statement] for statement in _statements(item))
        return any(place > last for place in self.read.get(value, []))

    def memory_read_after(self, value: Value, statement: Statement) -> bool:
        """Whether the tensor's memory is read after the statement, under whatever name; the model's input always."""
        place = self.place[statement]
        owner = value.owner
        if any(owner is each.owner for each in self.program.inputs):
            return True
        return any(max(places) > place for tensor, places in self.read.items() if tensor.owner is owner)


def _statements(item: Block | Statement) -> Sequence[Statement]:
    return [item] if isinstance(item, Statement) else list(item.statements())
