# SPDX-License-Identifier: Apache-2.0
"""Calls of a profile planned again with something changed, so that advice is checked before it is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tt_cnn.virtual.ttnn  # noqa: F401  it registers all operations
from tt_cnn.reports.records import CallRecord, Profile, Row
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.conv2d.alternatives import from_host
from tt_cnn.virtual.ops.operation import OPERATIONS, plan_call
from tt_cnn.virtual.planning.alternatives import Alternative, CallSite
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.planning.plan import Allocate, Step
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.memory_config import MemoryConfig
from tt_cnn.virtual.types.tensor_spec import Spec

LEAST_SHARE = 0.002
"""Of the device time: what saves less is not worth a reader's time."""
BUSY = 0.75
"""Of the card's cores; a layer with fewer is tried on others."""
_WORKING = ("Conv2d", "Matmul")
CONVOLUTIONS = ("conv2d", "conv_transpose2d")
_OUTPUT = {"fold": "override"}
"""Attributes that say where the output goes; `memory_config` with all others."""


@dataclass(frozen=True)
class Planned:
    """What a call would dispatch."""

    steps: tuple[Step, ...]
    output: Spec
    kernel_ns: float

    @property
    def cores(self) -> int:
        """Of the step that multiplies, where there is one."""
        working = [step for step in self.steps if step.op in _WORKING] or list(self.steps)
        return max((_working_cores(step) for step in working), default=0)


def _working_cores(step: Step) -> int:
    """As `Row.working_cores` counts them."""
    spec = step.outputs[0].spec
    cores = step.cores.num_cores()
    return min(cores, spec.cores_with_data.num_cores()) if step.op == "Conv2d" and spec.is_sharded else cores


def step_of(row: Row) -> Step:
    assert row.step is not None, "a profile that was read from a file has no steps to plan again"
    return row.step


@dataclass(frozen=True)
class KnownCall:
    """A call of the profile."""

    number: int
    rows: tuple[Row, ...]
    now: Planned
    """As it is."""
    made: CallRecord

    @property
    def layer(self) -> str:
        return self.rows[0].name

    @property
    def working(self) -> Row:
        return next((row for row in self.rows if row.op in _WORKING), self.rows[-1])


class Replanner:
    """Plans calls on the memory that they found when the profile was made."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.card = profile.card_data
        self._kept = {(one.buffer_type, one.address) for one in profile.buffers if one.born_before}
        self.calls: dict[int, tuple[Row, ...]] = {}
        for row in profile.rows:
            self.calls[row.call] = (*self.calls.get(row.call, ()), row)

    def worth_a_look(self, call: int) -> bool:
        """A call cannot save more than it takes."""
        return sum(row.cost.ns for row in self.calls[call]) >= LEAST_SHARE * self.profile.device_ns

    def call(self, number: int) -> KnownCall:
        """The call as it is."""
        rows, made = self.calls[number], self.profile.calls[number]
        output = made.plan.outputs[0].spec
        now = Planned(tuple(map(step_of, rows)), output, sum(row.cost.ns for row in rows))
        return KnownCall(number, rows, now, made)

    def convolution(self, number: int) -> KnownCall | None:
        """The call, where it is a convolution of a tensor on the card."""
        made = self.profile.calls[number]
        if made.operation not in CONVOLUTIONS or not isinstance(made.attributes["input"], int):
            return None
        return self.call(number)

    def alternatives(self, call: KnownCall) -> Iterator[Alternative]:
        """Those of its op that may take less time."""
        made = call.made
        if made.operation in CONVOLUTIONS and not isinstance(made.attributes["input"], int):
            return
        places = [made.places[slot.buffer] for slot in made.plan.inputs]
        constants = frozenset(n for n, at in enumerate(places) if (at.buffer_type.name, at.address) in self._kept)
        specs = [slot.spec for slot in made.plan.inputs]
        site = CallSite(self.card, specs, made.attributes, call.now.steps, constants)
        for alternative in OPERATIONS[made.operation].alternatives(site):
            if "time" in alternative.purposes:
                yield alternative

    def plan_as(
        self,
        call: KnownCall,
        alternative: Alternative | None = None,
        *,
        source: Spec | None = None,
        at: int | None = None,
        output: MemoryConfig | None = None,
    ) -> Planned | None:
        """What it dispatches in another form, from another input or at another call's place where these are given.

        `output` is where the result has to lie, so that the next call finds it there.
        """
        specs, attributes = [slot.spec for slot in call.made.plan.inputs], dict(call.made.attributes)
        if call.made.operation in CONVOLUTIONS:
            specs = [source or specs[attributes["input"]]]
            attributes |= {"input": 0, **from_host(attributes)}
        if alternative is not None:
            attributes |= alternative.attributes
            specs = [alternative.specs.get(number, spec) for number, spec in enumerate(specs)]
        if output is not None:
            attributes[_OUTPUT.get(call.made.operation, "memory_config")] = output
        return self.plan(call.made.operation, specs, attributes, call.number if at is None else at)

    def plan(self, operation: str, specs: Sequence[Spec], attributes: Mapping[str, Any], at: int) -> Planned | None:
        """Any op on inputs of these specs, in the memory that the call `at` found; None where the card refuses it."""
        found = self.profile.calls[at].memory
        memory = found.as_memory(self.card)
        plan = plan_call(self.card, OPERATIONS[operation], specs, range(len(specs)), attributes, found)
        try:
            for action in plan.actions:
                if isinstance(action, Allocate):
                    check_shard_grid(self.card, action.slot.spec)
            placed = place(plan, memory, self._places(memory, specs, self.profile.calls[at]), (), ProgramIds())
        except CardError:
            return None
        steps = tuple(one.step for one in placed.steps)
        return Planned(steps, plan.outputs[0].spec, sum(kernel_cost(step, self.card).ns for step in steps))

    def _places(self, memory: Memory, specs: Sequence[Spec], at: CallRecord) -> dict[int, Place]:
        """Where inputs in L1 stand, as the call's own do; DRAM has room for them."""
        used = [address for address, _, in_use in at.memory.l1_blocks if in_use]
        own = [at.places[slot.buffer] for slot in at.plan.inputs]
        places = {}
        for number, spec in enumerate(specs):
            need = memory.footprint(spec)
            if need.buffer_type is not BufferType.L1 or not used:
                address = memory.allocate(need)
            elif number < len(own) and own[number].address in used:
                address = own[number].address
            else:  # it is in memory already; where does not matter to a plan
                address = max(used)
            places[number] = Place(need.buffer_type, address, need.bank_bytes)
        return places

    def time_of(self, *parts: Planned | Row) -> float:
        """Kernels with the gaps before them."""
        gap = min((row.gap_ns for row in self.profile.rows[1:]), default=0.0)
        return sum(
            part.cost.ns + gap if isinstance(part, Row) else part.kernel_ns + gap * len(part.steps) for part in parts
        )
