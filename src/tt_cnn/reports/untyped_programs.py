"""Readings of programs that have no types yet: this file goes away with `UntypedProgram`.

`decision(program, "blocks", Blocks)` is `program.blocks` then.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, TypeVar

from tt_cnn.virtual.ops.sliding_window.window import SlidingWindow
from tt_cnn.virtual.planning.plan import UntypedProgram
from tt_cnn.virtual.planning.program import Program, Step
from tt_cnn.virtual.types.enums import MathFidelity

_T = TypeVar("_T")


def decision(program: Program | None, name: str, kind: type[_T]) -> _T | None:
    """A field of the program, where it has one of this type."""
    found = None if program is None else program.decisions.get(name)
    return found if isinstance(found, kind) else None


def doubles_activations(program: Program) -> bool:
    """`program.double_activations`"""
    both = decision(program, "double_buffers", tuple)
    return both[0] if both is not None else decision(program, "double_activations", bool) is True


def forces_split_reader(program: Program) -> bool:
    """`program.forced_split_reader`"""
    return any(decision(program, name, bool) for name in ("split_reader", "forced_split_reader"))


def fidelity_of(step: Step, call: Mapping[str, Any]) -> MathFidelity | None:
    """The step's own; a convolution's steps have their call's."""
    if step.program.fidelity is not None or not isinstance(step.program, UntypedProgram) or not step.program.work.macs:
        return step.program.fidelity
    compute = call.get("compute")
    return getattr(compute, "fidelity", None) or getattr(compute, "math_fidelity", None)


def multiply_adds(step: Step, call: Mapping[str, Any]) -> int:
    """Those that the layer asks for.

    The card also multiplies the zeros of a grouped convolution, those between the pixels of a transposed one, and
    those that fill up a matmul's last tiles. Sums of pools and reductions are not counted, as nobody counts them.
    """
    if not isinstance(step.program, UntypedProgram):
        return step.program.multiply_adds(step)
    if step.op not in ("Conv2d", "Matmul"):
        return 0
    conv = call.get("conv")
    groups = max(1, getattr(conv, "groups", 1))
    if step.op == "Matmul":
        inner = conv.in_channels if conv is not None else step.inputs[0].spec.shape[-1]
        return int(prod(step.outputs[0].spec.shape) * inner // groups)
    macs = step.program.work.macs // groups
    window = decision(step.program, "window", SlidingWindow)
    if window is not None and window.transposed:
        return macs * window.batch * prod(window.input_hw) // window.output_pixels
    return macs
