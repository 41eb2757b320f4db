# SPDX-License-Identifier: Apache-2.0
"""Findings about calls that could be one: an activation after an op that can apply it, an average of whole images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tt_cnn.reports.neighbours import Neighbours
from tt_cnn.reports.records import Finding, Row
from tt_cnn.reports.replanning import CONVOLUTIONS, KnownCall, Planned, Replanner, step_of
from tt_cnn.virtual.planning.alternatives import MEASURE, TIME, Alternative
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.memory_config import L1_MEMORY_CONFIG
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

_ACTIVATIONS = {"relu": UnaryOpType.RELU, "relu6": UnaryOpType.RELU6, "silu": UnaryOpType.SILU}
"""Ops that others apply to their result, without parameters."""
_SUMS = ("add", "add_", "multiply", "subtract")
_BEFORE_AN_AVERAGE = ("sharded_to_interleaved", "reshape", "to_memory_config")


def joined_findings(replanner: Replanner) -> Iterator[Finding]:
    neighbours = Neighbours(replanner)
    for number in replanner.calls:
        call = replanner.call(number)
        if call.made.operation in _ACTIVATIONS:
            yield from _fused_activation(replanner, neighbours, call)
        elif call.made.operation == "global_avg_pool2d":
            yield from _average(replanner, neighbours, call)


def _fused_activation(replanner: Replanner, neighbours: Neighbours, call: KnownCall) -> Iterator[Finding]:
    """`ttnn.add` and then `ttnn.relu`, where the sum could apply it before it is written."""
    maker = neighbours.makers.get(call.rows[0].inputs[0].buffer)
    if maker is None or neighbours.only_reader(maker) is not call.rows[0]:
        return
    before = replanner.call(maker.call)
    fused = _with_activation(before, _ACTIVATIONS[call.made.operation])
    if fused is None or maker is not before.rows[-1]:
        return
    planned = replanner.plan_as(before, fused, output=call.now.output.memory_config)
    if planned is None or not _alike(planned.output, call.now.output):
        return
    rows = (*before.rows, *call.rows)
    yield Finding(
        "activation",
        neighbours.name(maker),
        f"is followed by a ttnn.{call.made.operation} of its own",
        f"let {maker.call_name} apply it ({fused.words})",
        replanner.time_of(*rows) - replanner.time_of(planned),
        tuple(row.index for row in rows),
        {"leave out": (call.rows[0].call_name,), **fused.change},
    )


def _alike(one: Spec, other: Spec) -> bool:
    """Whether the next call cannot tell them apart."""
    return all(getattr(one, name) == getattr(other, name) for name in ("shape", "dtype", "layout", "memory_config"))


def _with_activation(call: KnownCall, kind: UnaryOpType) -> Alternative | None:
    """The call that applies it; None where it applies one already, or cannot."""
    given, said = call.made.attributes, f"ttnn.UnaryOpType.{kind.name}"
    if call.made.operation in _SUMS and not given["activations"][2]:
        attributes = {"activations": (*given["activations"][:2], ((kind, ()),))}
        return Alternative("activation", f"activations=[{said}]", attributes, {"activations": [kind]}, TIME)
    if call.made.operation in CONVOLUTIONS and given["settings"].activation is None:
        settings = given["settings"].but(activation=(kind, ()))
        return Alternative("activation", f"activation={said}", {"settings": settings}, {"activation": kind}, TIME)
    return None


def _average(replanner: Replanner, neighbours: Neighbours, call: KnownCall) -> Iterator[Finding]:
    """The mean of one flattened image needs neither its rows nor its untiled form."""
    pool = call.made.attributes["pool"]
    if pool.batch != 1:
        return
    rows = [*call.rows]
    first = rows[0]
    while True:  # moves and views of the image alone, made for the average
        maker = neighbours.makers.get(first.inputs[0].buffer)
        operation = None if maker is None else replanner.profile.calls[maker.call].operation
        if maker is None or operation not in _BEFORE_AN_AVERAGE or neighbours.only_reader(maker) is not first:
            break
        rows.insert(0, maker)
        first = maker
    source = step_of(first).inputs[0].spec
    instead = _mean_of(replanner, first, source, pool, call)
    if instead is None:
        return
    yield Finding(
        "average",
        call.layer,
        f"brings its image of {pool.height}x{pool.width} to rows before it averages it, in {len(rows)} steps",
        "average the flattened tiles in L1 with ttnn.mean(x, 2, keepdim=True)",
        replanner.time_of(*rows) - replanner.time_of(*instead),
        tuple(row.index for row in rows),
        {"as_mean": True},
        MEASURE,
        lossless=False,
    )


def _mean_of(replanner: Replanner, at: Row, source: Spec, pool: Any, call: KnownCall) -> list[Planned] | None:
    flat = Shape((1, 1, pool.height * pool.width, pool.channels))
    if source.shape != flat:
        return None
    parts = []
    if source.memory_config != L1_MEMORY_CONFIG:
        moved = replanner.plan(
            "to_memory_config", [source], {"memory_config": L1_MEMORY_CONFIG, "dtype": None}, at.call
        )
        if moved is None:
            return None
        parts.append(moved)
    attributes = {
        "dims": (2,),
        "keepdim": True,
        "memory_config": call.now.output.memory_config,
        "compute": None,
        "scalar": 1.0,
        "cores": None,
        "fast": False,
        "layout": None,
    }
    inside = Spec(flat, source.dtype, source.layout, L1_MEMORY_CONFIG)
    mean = replanner.plan("mean", [inside], attributes, at.call)
    return None if mean is None else [*parts, mean]
