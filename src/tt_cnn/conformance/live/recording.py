# SPDX-License-Identifier: Apache-2.0
"""What a card did while a program ran: its steps in order, in the terms of the recorded corpora."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Ranges = list[list[list[int]]]
Memory = list[int]
"""[type (0 DRAM, 1 L1, 3 L1_SMALL), address, bytes per bank]."""

FINISHED, RAISED = "ok", "error"


class RecordingError(ValueError):
    """A file that is not a recording."""


@dataclass
class LiveStep:
    """One device operation, with the memory that was taken before it and given back after it."""

    op: str
    factory: str = ""
    call: int = 0
    """The number of the call that it is part of."""
    layer: str = ""
    inputs: list[dict[str, Any]] = field(default_factory=list)
    """Specs of tensors with their addresses."""
    outputs: list[dict[str, Any]] = field(default_factory=list)
    cbs: list[list[Any]] = field(default_factory=list)
    """Circular buffers as [address (None: not known), bytes, 1 if it borrows a tensor's memory, core ranges]."""
    staging: list[list[Any]] | None = field(default_factory=list)
    """Dataflow buffers as [bytes, 1 if it borrows a tensor's memory, core ranges]; None: not known."""
    buffers: list[Memory] = field(default_factory=list)
    """Allocated between the program before and this one."""
    frees: list[Memory] = field(default_factory=list)
    """Given back between this program and the next."""
    own: list[list[Any]] = field(default_factory=list)
    """Of the real library: allocated by the operation itself, as [type, address, bytes per bank, cores, layout]."""
    cached: bool = False
    """The program was in the program cache: the real library does not tell its circular buffers then."""


@dataclass
class LiveCall:
    """One call of a TT-NN function that dispatched steps."""

    name: str
    steps: int = 0
    peak: dict[str, int] | None = None
    """Bytes per core in a dry run; None: not known."""


@dataclass
class CardFacts:
    """The card that a program ran on."""

    arch: str
    grid: tuple[int, int]
    chips: int = 1


@dataclass
class Recording:
    library: str
    """`ttnn 0.81.1`, or `the virtual n150`."""
    card: CardFacts
    steps: list[LiveStep]
    calls: list[LiveCall]
    status: str = FINISHED
    message: str = ""
    """Of the error that ended the program."""
    error: str = ""
    """Its type."""
    mocked: bool = False
    """No kernel ran: there are no values and no times."""
    notes: list[str] = field(default_factory=list)
    """What could not be recorded, and why."""

    def save(self, path: Path) -> None:
        path.write_bytes(gzip.compress(json.dumps(asdict(self)).encode()))


def load_recording(path: Path) -> Recording:
    try:
        data = json.loads(gzip.decompress(path.read_bytes()))
        data["card"] = CardFacts(**{**data["card"], "grid": tuple(data["card"]["grid"])})
        data["steps"] = [LiveStep(**step) for step in data["steps"]]
        data["calls"] = [LiveCall(**call) for call in data["calls"]]
        return Recording(**data)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        raise RecordingError(f"{path}: not a recording of a live run ({error})") from error
