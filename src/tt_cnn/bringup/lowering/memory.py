"""Who gives memory back, and in which layout pools leave their output: decided when the whole program is known."""

from __future__ import annotations

from tt_cnn.bringup.lowering.program import Code, Program, Statement, Value

TAKE_ROWS = frozenset("conv2d conv_transpose2d max_pool2d avg_pool2d upsample rearrange slice concat".split())
"""Layers that read rows as well as tiles."""


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
        owners = [value.owner for value in statement.inputs]
        for value, setting in zip(statement.inputs, statement.frees, strict=False):
            if not setting or value.constant is not None or value.owner in lent or owners.count(value.owner) > 1:
                continue
            later = [read for place, read in reads[value.owner] if place > index]
            if all(_seen_through(read, statement.outputs) for read in later):
                statement.layer.settings[setting] = True


def _seen_through(value: Value | None, outputs: tuple[Value, ...]) -> bool:
    """Whether it is one of these, or a view of one: a layer gives back only what its output does not lie in."""
    while value is not None:
        if value in outputs:
            return True
        value = value.memory
    return False


def choose_layouts(program: Program) -> None:
    """Pools give tiles where somebody reads them who needs tiles."""
    readers: dict[Value, list[Statement]] = {}
    for statement in program.statements:
        for value in statement.inputs:
            readers.setdefault(value.owner, []).append(statement)
    for statement in program.statements:
        if statement.layer.method in ("max_pool2d", "avg_pool2d"):
            read_by = [reader.layer.method for value in statement.outputs for reader in readers.get(value.owner, [])]
            if any(method not in TAKE_ROWS for method in read_by):
                statement.layer.settings["output_layout"] = Code("ttnn.TILE_LAYOUT")
                for value in statement.outputs:
                    value.tiles = True
