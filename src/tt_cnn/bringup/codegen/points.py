# SPDX-License-Identifier: Apache-2.0
"""Which layer gives which torch value: the table that the generated tests compare by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil

from tt_cnn.bringup.comparison import LAYER_LOSS, Point
from tt_cnn.bringup.forms import IMAGE, order_of
from tt_cnn.bringup.lowering.program import Program, Statement, Value
from tt_cnn.models.brought_up import TorchShape

WIDTH = 120
ROOM = 1.5
"""What a layer may lose in the folder's tests, beside what it lost when they were written."""


def points_of(program: Program) -> dict[str, Point]:
    """Layers whose output is one value of the torch graph."""
    found: dict[str, Point] = {}
    known: dict[Value, tuple[str, ...]] = {}
    for statement in program.statements:
        given = [name for value in statement.inputs for name in known.get(value.owner, ())]
        reads = tuple(dict.fromkeys(given))
        form = _torch_shape(statement)
        name = statement.layer.name
        if form is not None:
            found[name] = Point(statement.result, form, reads)
        for value in statement.outputs:
            known[value.owner] = (name,) if form is not None else reads
    return found


def _torch_shape(statement: Statement) -> TorchShape | None:
    """How the output lies in memory; None where it is no value that torch has."""
    shape = statement.node.shape
    if not statement.result or len(statement.outputs) != 1 or not shape or isinstance(shape[0], tuple):
        return None
    form = statement.outputs[0].form
    if tuple(form.shape) != tuple(shape):
        return None
    usual = IMAGE if len(shape) == 4 else tuple(range(len(shape)))
    order = () if form.lies_in(usual) else order_of(form)
    return None if order is None else TorchShape(tuple(shape), order)


def with_losses(points: Mapping[str, Point], lost: Mapping[str, float]) -> dict[str, Point]:
    """Layers that lose more than usual, by a precision that the model's outputs bear, may lose that."""
    allowed = {name: ceil(100 * ROOM * loss) / 100 for name, loss in lost.items() if ROOM * loss > LAYER_LOSS}
    return {name: replace(point, loss=allowed[name]) if name in allowed else point for name, point in points.items()}


def points_code(points: Mapping[str, Point]) -> str:
    lines = [
        '"""Which layer gives which value of the exported torch graph, and which layers it is given."""',
        "",
        "from tt_cnn.bringup.comparison import Point",
        "from tt_cnn.models.brought_up import TorchShape",
        "",
        "POINTS = {",
    ]
    for name, point in points.items():
        order = f", order={point.shape.order}" if point.shape.order else ""
        reads = ", ".join(f'"{each}"' for each in point.reads) + ("," if len(point.reads) == 1 else "")
        loss = [f"loss={point.loss}"] if point.loss != LAYER_LOSS else []
        said = ", ".join((f'"{point.node}"', f"TorchShape({point.shape.shape}{order})", f"reads=({reads})", *loss))
        code = f'"{name}": Point({said}),'
        if len(code) + 4 <= WIDTH:
            lines.append(f"    {code}")
            continue
        lines += [
            f'    "{name}": Point(',
            f'        "{point.node}",',
            f"        TorchShape({point.shape.shape}{order}),",
            *_reads(point.reads),
            *(f"        {each}," for each in loss),
            "    ),",
        ]
    return "\n".join([*lines, "}", ""])


def _reads(names: tuple[str, ...]) -> list[str]:
    inside = ", ".join(f'"{each}"' for each in names)
    one = f"        reads=({inside}{',' if len(names) == 1 else ''}),"
    if len(one) <= WIDTH:
        return [one]
    return ["        reads=(", *(f'            "{each}",' for each in names), "        ),"]
