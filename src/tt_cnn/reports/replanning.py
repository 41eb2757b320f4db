"""Calls of a profile planned again with something changed, so that advice is checked before it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tt_cnn.virtual.ttnn  # noqa: F401  it registers all operations
from tt_cnn.reports.records import CallRecord, Finding, Profile, Row
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.memory.shard_grid import check_shard_grid
from tt_cnn.virtual.ops.conv2d.config import Settings
from tt_cnn.virtual.ops.conv2d.conv2d import ComputeChoice
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.operation import OPERATIONS, plan_call
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.planning.plan import Allocate, Step
from tt_cnn.virtual.types.enums import BufferType, DataType, Layout, MathFidelity
from tt_cnn.virtual.types.geometry import Shape
from tt_cnn.virtual.types.tensor_spec import Spec

LEAST_SHARE = 0.002
"""Of the device time: what saves less is not worth a reader's time."""
BUSY = 0.75
"""Of the card's cores; a layer with fewer is tried on others."""
_MEASURE = "Measure the PCC again afterwards."
"""The caution of advice about precision."""

_WORKING = ("Conv2d", "Matmul")
_CONVOLUTIONS = ("conv2d", "conv_transpose2d")


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
        return max((step.cores.num_cores() for step in working), default=0)


def step_of(row: Row) -> Step:
    assert row.step is not None, "a profile that was read from a file has no steps to plan again"
    return row.step


@dataclass(frozen=True)
class ProductCall:
    """A call of the profile that multiplies."""

    rows: tuple[Row, ...]
    now: Planned
    """As it is."""

    @property
    def layer(self) -> str:
        return self.rows[0].name

    @property
    def working(self) -> Row:
        return next((row for row in self.rows if row.op in _WORKING), self.rows[-1])


def finding(
    call: ProductCall,
    kind: str,
    problem: str,
    advice: str,
    saves_ns: float,
    change: dict[str, Any],
    caution: str = "",
) -> Finding:
    rows = tuple(row.index for row in call.rows)
    return Finding(kind, call.layer, problem, advice, saves_ns, rows, change, caution)


def weights_finding(call: ProductCall, now: DataType, saves_ns: float) -> Finding:
    problem, advice = f"reads its weights as {now.name.lower()}", "let it read them as bfloat8_b"
    return finding(call, "weights", problem, advice, saves_ns, {"weights_dtype": DataType.BFLOAT8_B}, _MEASURE)


def fidelity_finding(call: ProductCall, now: MathFidelity, saves_ns: float) -> Finding:
    problem, advice = f"multiplies with {now.name}", "let it multiply with LoFi"
    return finding(call, "fidelity", problem, advice, saves_ns, {"math_fidelity": MathFidelity.LoFi}, _MEASURE)


@dataclass(frozen=True)
class ConvolutionCall(ProductCall):
    """A `ttnn.conv2d` or `ttnn.conv_transpose2d` of the profile."""

    made: CallRecord
    source: Spec
    conv: Convolution
    settings: Settings
    compute: ComputeChoice

    @property
    def attributes(self) -> dict[str, Any]:
        """Those that it was made with, but for what was changed, and its operands.

        Weights and bias come from the host, as they do when a model is made: another configuration wants them in
        another form, which those that lie on the card already do not have.
        """
        conv = self.conv
        outer, inner = conv.out_channels, conv.in_channels
        if isinstance(conv, TransposedConvolution):
            outer, inner = inner, outer
        weight, bias = Shape((outer, inner // conv.groups, *conv.kernel)), Shape((1, 1, 1, conv.out_channels))
        return {
            **self.made.attributes,
            "settings": self.settings,
            "compute": self.compute,
            "input": 0,
            "weight": _on_host(weight),
            "bias": None if self.made.attributes["bias"] is None else _on_host(bias),
        }

    def but(self, **settings: Any) -> ConvolutionCall:
        return replace(self, settings=self.settings.but(**settings))

    def with_fidelity(self, fidelity: MathFidelity) -> ConvolutionCall:
        return replace(self, compute=self.compute._replace(fidelity=fidelity))


def _on_host(shape: Shape) -> HostOperand:
    return HostOperand(Spec(shape, DataType.FLOAT32, Layout.ROW_MAJOR))


class Replanner:
    """Plans calls on the memory that they found when the profile was made."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.card = profile.card_data
        self.calls: dict[int, tuple[Row, ...]] = {}
        for row in profile.rows:
            self.calls[row.call] = (*self.calls.get(row.call, ()), row)

    def worth_a_look(self, call: int) -> bool:
        """A call cannot save more than it takes."""
        return sum(row.cost.ns for row in self.calls[call]) >= LEAST_SHARE * self.profile.device_ns

    def now(self, call: int) -> Planned:
        """The call as it is."""
        rows = self.calls[call]
        output = self.profile.calls[call].plan.outputs[0].spec
        return Planned(tuple(map(step_of, rows)), output, sum(row.cost.ns for row in rows))

    def convolution(self, call: int) -> ConvolutionCall | None:
        """The call, where it is a convolution of a tensor on the card."""
        made = self.profile.calls[call]
        given = made.attributes
        if made.operation not in _CONVOLUTIONS or not isinstance(given["input"], int):
            return None
        source = made.plan.inputs[given["input"]].spec
        return ConvolutionCall(
            self.calls[call], self.now(call), made, source, given["conv"], given["settings"], given["compute"]
        )

    def plan_convolution(
        self, call: ConvolutionCall, *, source: Spec | None = None, at: int | None = None, like_before: bool = False
    ) -> Planned | None:
        """What it dispatches, from another input or at another call's place where these are given.

        `like_before` brings the output to the memory where the profile has it, so that the next call finds it there.
        """
        attributes = call.attributes
        if like_before:
            attributes["memory_config"] = call.now.output.memory_config
        at = call.rows[0].call if at is None else at
        return self.plan(call.made.operation, [source or call.source], attributes, at)

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
