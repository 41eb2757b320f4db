# SPDX-License-Identifier: Apache-2.0
"""Placements of tensors that wait: a skip connection can be put into DRAM between those who read it early and late.

Each such tensor gets a placement, which does nothing until its settings name a memory. Fitting and the optimiser set
them; placements that still do nothing afterwards are taken out, so that the code has those that are of use.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain, count, pairwise

from tt_cnn.bringup.lowering.program import LayerSpec, Program, Statement, Value
from tt_cnn.bringup.module_calls import ModuleCall

LEAST_WAIT = 2
"""Layers that run while the tensor waits; for fewer there is no room to be made."""
METHOD = "placement"

Stack = tuple[ModuleCall, ...]


def place_skips(program: Program) -> None:
    """A placement for every tensor that is read, left alone for some layers, and read again."""
    taken = {layer.name for layer in program.layers()}
    for maker in list(program.statements):
        for value in maker.outputs:
            if _is_whole(program, value):
                _place(program, maker, value, taken)


def _place(program: Program, maker: Statement, value: Value, taken: set[str]) -> None:
    readers = [index for index, each in enumerate(program.statements) if value in each.inputs]
    waits = [(late - early, early, late) for early, late in pairwise(readers) if late - early > LEAST_WAIT]
    if not waits:
        return
    _, early, late = max(waits)
    stacks = [maker.stack, *(program.statements[index].stack for index in readers if index >= late)]
    scope = _common(stacks)
    index = _after(program, early, scope)
    if index is None or index >= late:
        return
    node = maker.node
    moved = Value(value.form, value.shape, value.tiles, node=value.node)
    name = _free_name(scope, taken)
    taken.add(name)
    for statement in program.statements[index:]:
        statement.inputs = tuple(moved if each is value else each for each in statement.inputs)
    program.statements.insert(index, Statement(scope, LayerSpec(name, METHOD), (value,), (moved,), node))


def _is_whole(program: Program, value: Value) -> bool:
    """A tensor of its own that no output, no view and no part of it keeps in memory."""
    if value.memory is not None or value in program.outputs or value in program.inputs:
        return False
    others = [each for statement in program.statements for each in (*statement.inputs, *statement.outputs)]
    others += program.outputs
    return not any((each.memory is value) or (each.cut is not None and each.cut.source is value) for each in others)


def _common(stacks: list[Stack]) -> Stack:
    """The innermost module call that all of them are in."""
    depth = 0
    while all(len(stack) > depth and stack[depth] == stacks[0][depth] for stack in stacks):
        depth += 1
    return stacks[0][:depth]


def _after(program: Program, index: int, scope: Stack) -> int | None:
    """The place behind a statement and the module call inside the scope that it is in."""
    depth = len(scope)
    stack = program.statements[index].stack
    if stack[:depth] != scope:
        return None
    place = index + 1
    if len(stack) > depth:
        while place < len(program.statements) and program.statements[place].stack[: depth + 1] == stack[: depth + 1]:
            place += 1
    return place


def _free_name(scope: Stack, taken: set[str]) -> str:
    base = f"{scope[-1].name}.skip" if scope[-1].name else "skip"
    numbered = (f"{base}_{number}" for number in count(2))
    return next(name for name in chain([base], numbered) if name not in taken)


def placements(program: Program) -> list[str]:
    return [layer.name for layer in program.layers() if layer.method == METHOD]


def drop_placements(program: Program, idle: Callable[[str], bool]) -> frozenset[str]:
    """Take placements out by their names, which are given back; what they moved stays where it is."""
    dropped = [each for each in program.statements if each.layer.method == METHOD and idle(each.layer.name)]
    for statement in dropped:
        (given,), (moved,) = statement.inputs, statement.outputs
        program.statements.remove(statement)
        for other in program.statements:
            other.inputs = tuple(given if each is moved else each for each in other.inputs)
    return frozenset(each.layer.name for each in dropped)
