# SPDX-License-Identifier: Apache-2.0
"""Which ops a file may call: functions of torch on tensors, and sums of sizes. Nothing else is looked up."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tt_cnn.bringup.imported.graph import Step, Unreadable

SIZES: dict[str, Callable[..., Any]] = {
    f"operator.{name}": getattr(operator, name)
    for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "getitem", "pow", "truediv")
}
_MAKERS = frozenset(["arange", "eye", "full", "linspace", "ones", "scalar_tensor", "zeros"])
"""Ops that are given no tensor."""
_TOLD_BY_WORDS = frozenset(
    [
        *("conv1d", "conv2d", "conv3d", "div", "einsum", "gelu", "pad", "meshgrid"),
        *("scatter_reduce", "index_reduce", "bucketize", "searchsorted", "linalg_norm"),
    ]
)
"""Ops with words among their arguments; others may be given the name of a file."""
_WORD = re.compile(r"^[\w,> .-]*$", re.ASCII)


def op_of(target: str) -> Callable[..., Any]:
    """The function of an op's name."""
    if target in SIZES:
        return SIZES[target]
    found = _aten(target)
    if found is None or not _is_harmless(found):
        raise Unreadable(f"{target} is no op that is taken from a file")
    return found


def check_ops(steps: Iterable[Step], file: str) -> None:
    """All ops that are not taken, in one error."""
    unknown: dict[str, int] = {}
    for step in steps:
        try:
            op_of(step.target)
        except Unreadable:
            unknown[step.target] = unknown.get(step.target, 0) + 1
    if unknown:
        raise Unreadable(not_taken(file, unknown))
    for step in steps:
        for word in _words([*step.arguments, *step.keywords.values()]):
            if not _WORD.match(word):
                raise Unreadable(f"{file}: {step.target} is given {word!r}, which no op of torch takes")


def not_taken(file: str, ops: dict[str, int]) -> str:
    """What to say of ops and how often each is there."""
    shown = "\n".join(f"  {name}" + (f", {count} times" if count > 1 else "") for name, count in sorted(ops.items()))
    return (
        f"{file} has {'an op' if len(ops) == 1 else f'{len(ops)} ops'} that cannot be taken from a file:\n{shown}\n"
        "  export the model without them, or give the module itself: tt-cnn bringup net.py:Net"
    )


def _aten(target: str) -> Any:
    match = re.fullmatch(r"aten\.([A-Za-z_]\w*)\.([A-Za-z_]\w*)", target, re.ASCII)
    if match is None or match.group(1).startswith("__"):
        return None
    packet = getattr(torch.ops.aten, match.group(1), None)
    found = getattr(packet, match.group(2), None)
    return found if isinstance(found, torch._ops.OpOverload) else None


def _is_harmless(op: Any) -> bool:
    name = str(op._schema.name).removeprefix("aten::").rstrip("_")
    kinds = [str(argument.type) for argument in op._schema.arguments]
    if any("str" in kind for kind in kinds) and not (name in _TOLD_BY_WORDS or name.startswith("upsample")):
        return False
    return name in _MAKERS or any("Tensor" in kind for kind in kinds)


def _words(value: Any) -> Iterable[str]:
    if type(value) is str:
        yield value
    elif type(value) in (list, tuple):
        for each in value:
            yield from _words(each)
