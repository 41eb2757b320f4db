# SPDX-License-Identifier: Apache-2.0
"""Faults of tt-cnn itself, as opposed to refusals and from errors of the caller's own code.

A refusal is raised on purpose: by a `raise` statement of this package, as one of the kinds that TT-NN raises. Whatever
else comes out of this package (a KeyError on the way to a plan, an error of torch on a queue) is an `InternalError`.
"""

from __future__ import annotations

import dis
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch

from tt_cnn.virtual.arguments.call_script import call_script
from tt_cnn.virtual.errors.card_error import CardError, InternalError

_PACKAGE = f"{Path(__file__).parents[1]}/"
_LIBRARIES = tuple({f"{path}/" for name, path in sysconfig.get_paths().items() if name.endswith("lib")})
_GENERATED = "<"
"""Code without a file, say a dataclass's own methods, belongs to who calls it."""
_RAISE = dis.opmap["RAISE_VARARGS"]
_REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, InternalError)
"""What this package may raise on purpose; an IndexError is what `tensor[9]` is to Python."""
_OF_THE_MACHINE = (MemoryError, torch.OutOfMemoryError, OSError, ImportError, Warning)
"""Nobody's fault here: no memory, no such file, no such library, warnings that were asked to be errors."""


def is_fault(error: Exception) -> bool:
    """Whether an error is this package's own fault, by where and how it was raised."""
    if isinstance(error, CardError):
        return False  # and nobody has read it yet
    if isinstance(error, _OF_THE_MACHINE) or "can't allocate memory" in str(error):  # as torch says it for the CPU
        return False
    frames = list(_frames(error.__traceback__))
    ours = [
        (frame, last) for frame, last in frames if not frame.f_code.co_filename.startswith((*_elsewhere(), _GENERATED))
    ]
    if not ours:
        return False
    frame, last = ours[-1]
    if not frame.f_code.co_filename.startswith(_PACKAGE):
        return False  # in a function that the caller gave us
    raised_here = (frame, last) == frames[-1] and frame.f_code.co_code[last] == _RAISE
    return not (raised_here and isinstance(error, _REFUSALS))


def _elsewhere() -> tuple[str, ...]:
    """Folders of libraries; an installed tt-cnn is in one of them."""
    return tuple(folder for folder in _LIBRARIES if not _PACKAGE.startswith(folder))


def _frames(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lasti
        traceback = traceback.tb_next


def internal_error(name: str, args: Any, kwargs: dict[str, Any], error: Exception) -> InternalError:
    """What to raise, from `error`, for a call that broke inside."""
    return InternalError(
        f"{name} broke inside tt-cnn: {type(error).__name__}: {error}", call_script(name, args, kwargs)
    )
