# SPDX-License-Identifier: Apache-2.0
"""Who gives memory back, and in which layout pools leave their output: decided when the whole program is known."""

from __future__ import annotations

from tt_cnn.bringup.lowering.program import Code, Program, Statement, Value

TAKE_ROWS = frozenset(["conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d", "upsample", "rearrange", "slice"])
"""Layers that read rows as well as tiles."""
TILE = 32


def drop_unread(program: Program) -> None:
    """Statements whose outputs nobody reads: parts of a tensor that somebody took as a whole."""
    read = {value for output in program.outputs for value in _chain(output)}
    kept: list[Statement] = []
    for statement in reversed(program.statements):
        if not any(output in read for output in statement.outputs):
            continue
        kept.append(statement)
        read |= {value for given in statement.inputs for value in _chain(given)}
    program.statements = kept[::-1]


def _chain(value: Value | None) -> list[Value]:
    """The value and those that it is a view of."""
    found = []
    while value is not None:
        found.append(value)
        value = value.memory
    return found


def free_inputs(program: Program) -> None:
    """Layers give back what nobody reads after them; the model's own input is the pipeline's."""
    reads: dict[Value, list[tuple[int, Value]]] = {}
    for index, statement in enumerate(program.statements):
        for value in statement.inputs:
            reads.setdefault(value.owner, []).append((index, value))
    for value in program.outputs:
        reads.setdefault(value.owner, []).append((len(program.statements), value))
    lent = {value.owner for value in program.inputs}
    for index, statement in enumerate(program.statements):
        freed: dict[str, list[bool]] = {}
        for value, setting in zip(statement.inputs, statement.frees, strict=False):
            if not setting:
                continue
            later = [read for place, read in reads[value.owner] if place > index]
            freed.setdefault(setting, []).append(_may_go(value, later, statement, lent))
        statement.layer.settings.update({setting: True for setting, may in freed.items() if all(may)})


def _may_go(value: Value, later: list[Value], statement: Statement, lent: set[Value]) -> bool:
    """Whether all that read the memory later see it through the statement's outputs: a layer gives back only what
    these do not lie in."""
    if value.constant is not None or value.owner in lent:
        return False
    if sum(each.owner is value.owner for each in statement.inputs) > 1:
        return False
    return all(any(each in statement.outputs for each in _chain(read)) for read in later)


def choose_layouts(program: Program) -> None:
    """Pools give tiles where somebody reads them who needs tiles, or joins whole tiles of channels."""
    readers: dict[Value, list[Statement]] = {}
    for statement in program.statements:
        for value in statement.inputs:
            readers.setdefault(value.owner, []).append(statement)
    for statement in program.statements:
        if statement.layer.method in ("max_pool2d", "avg_pool2d"):
            read_by = [reader.layer.method for value in statement.outputs for reader in readers.get(value.owner, [])]
            takes = TAKE_ROWS if statement.outputs[0].shape[-1] % TILE == 0 else TAKE_ROWS | {"concat"}
            if any(method not in takes for method in read_by):
                statement.layer.settings["output_layout"] = Code("ttnn.TILE_LAYOUT")
                for value in statement.outputs:
                    value.tiles = True
