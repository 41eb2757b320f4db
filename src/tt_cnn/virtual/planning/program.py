# SPDX-License-Identifier: Apache-2.0
"""A program: what one dispatched step runs. Each program factory of TT-NN has a type here or in its op's folder.

Every decision that planning makes is a field of the program. Numbers, time, reports and the graph read it and decide
nothing again.

    @dataclass(frozen=True, kw_only=True)
    class ReshardProgram(Program):
        op: str = "Reshard"
        runs_per_core: int
        bytes_per_run: int

        def time(self, step, figures):
            return Cycles(...)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

from tt_cnn.virtual.arch import Card
from tt_cnn.virtual.cost.figures import Figures
from tt_cnn.virtual.cost.parts import Cycles
from tt_cnn.virtual.planning.slots import AllocateConfig, CircularBuffer, Slot
from tt_cnn.virtual.types.enums import MathFidelity
from tt_cnn.virtual.types.geometry import CoreRangeSet
from tt_cnn.virtual.types.lazy import lazy
from tt_cnn.virtual.types.tensor_spec import Spec


@dataclass(frozen=True, kw_only=True)
class Program(ABC):
    """Its device operation and factory by TT-NN's names, its cores, and its circular buffers.

    Two steps share a cached program where their programs are equal and their tensors have the same specs. Buffers
    follow from the other fields and name slots of one plan, so they do not count in that.
    """

    suffix: ClassVar[str] = "DeviceOperation"
    """What the name of its device operation has after `op`."""

    op: str
    factory: str
    cores: CoreRangeSet
    buffers: tuple[CircularBuffer, ...] = field(default=(), compare=False, repr=False)

    @property
    def device_operation(self) -> str:
        """The name that TT-NN's graphs and profiler give it."""
        return self.op + self.suffix

    @abstractmethod
    def time(self, step: Step, figures: Figures) -> Cycles:
        """Cycles of the busiest core."""

    def ideal_cycles(self, step: Step, card: Card, figures: Figures) -> int:
        """By upstream's performance model (`PM COMPUTE`); ops without one count a cycle."""
        return 1

    @property
    def fidelity(self) -> MathFidelity | None:
        """Of programs that multiply or that take a compute configuration."""
        return None

    def multiply_adds(self, step: Step) -> int:
        """Those that the layer asks for: no padding, no zeros between groups or pixels."""
        return 0

    def dram_bytes(self, step: Step) -> int:
        """Read from DRAM and written to it."""
        specs = [slot.spec for slot in (*step.inputs, *step.outputs)]
        return sum(spec.num_pages * spec.page_bytes for spec in specs if spec.memory_config.is_dram())

    @property
    def decisions(self) -> dict[str, Any]:
        """The fields that this kind of program adds, by name."""
        return {one.name: getattr(self, one.name) for one in fields(self) if one.name not in _COMMON}

    def dry_run_refusal(self, step: Step) -> str | None:
        """What TT-NN says to a dry run (a graph capture with NO_DISPATCH) of a program that is not cached, while
        tensors are in L1. None: it runs."""
        return None

    def buffer(self, name: str) -> CircularBuffer:
        return next(one for one in self.buffers if one.name == name)


_COMMON = frozenset(one.name for one in fields(Program))


@dataclass(frozen=True)
class Step:
    """One dispatched device operation: a program on the tensors of a plan."""

    program: Program
    inputs: tuple[Slot, ...]
    outputs: tuple[Slot, ...]
    configs: tuple[AllocateConfig, ...] = ()
    moves: bool = False
    """It brings a tensor to another address, and is not dispatched where the new memory is the old (`ttnn.move`)."""
    overlapping: Step | None = None
    """What is dispatched in its place where the new memory overlaps the old, as long as its buffers end below it."""

    @property
    def op(self) -> str:
        return self.program.op

    @property
    def factory(self) -> str:
        return self.program.factory

    @property
    def cores(self) -> CoreRangeSet:
        return self.program.cores

    @property
    def buffers(self) -> tuple[CircularBuffer, ...]:
        return self.program.buffers

    @lazy
    def program_key(self) -> ProgramKey:
        """What makes two steps the same program: the program cache compares this."""
        return ProgramKey(self.program, tuple([s.spec for s in self.inputs]), tuple([s.spec for s in self.outputs]))


class ProgramKey:
    """A program and the specs of its tensors. It is looked up many times, so its hash is kept."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, program: Program, inputs: tuple[Spec, ...], outputs: tuple[Spec, ...]) -> None:
        self._parts = program, inputs, outputs
        self._hash = hash(self._parts)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, ProgramKey) and self._parts == other._parts)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self._parts)
