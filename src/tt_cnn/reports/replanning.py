"""Calls of a profile planned again with something changed, so that advice is checked before it is given.

A profile is text and numbers. What planning needs is read back from them; a call counts as understood only where
planning it unchanged gives the very steps that the profile has.
"""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tt_cnn.virtual.ttnn  # noqa: F401  it registers all operations
from tt_cnn.reports.profile import Profile, Row, TensorRecord
from tt_cnn.virtual.cost.kernel import kernel_cost
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.ops.conv2d.config import Settings, SliceTypeEnum, Slicing
from tt_cnn.virtual.ops.conv2d.conv2d import ComputeChoice
from tt_cnn.virtual.ops.conv2d.problem import Convolution, HostOperand
from tt_cnn.virtual.ops.conv_transpose2d.problem import TransposedConvolution
from tt_cnn.virtual.ops.operation import OPERATIONS
from tt_cnn.virtual.planning.placement import Place, ProgramIds, place
from tt_cnn.virtual.planning.plan import FreeMemory, Planner, Step
from tt_cnn.virtual.types.enums import (
    BufferType,
    DataType,
    Layout,
    MathFidelity,
    PaddingMode,
    ShardOrientation,
    TensorMemoryLayout,
)
from tt_cnn.virtual.types.geometry import CoreCoord, CoreRange, CoreRangeSet, Shape, round_up
from tt_cnn.virtual.types.memory_config import MemoryConfig, ShardSpec
from tt_cnn.virtual.types.tensor_spec import Spec
from tt_cnn.virtual.types.unary import UnaryOpType

_WORKING = ("Conv2d", "Matmul")


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

    def is_like(self, rows: Sequence[Row]) -> bool:
        """The same steps on as many cores."""
        return [(step.op, step.cores.num_cores()) for step in self.steps] == [(row.op, row.cores) for row in rows]


CONVOLUTIONS = ("ttnn.conv2d", "ttnn.conv_transpose2d")


@dataclass(frozen=True)
class ConvolutionCall:
    """A `ttnn.conv2d` or `ttnn.conv_transpose2d` of the profile, as planning knows it."""

    rows: tuple[Row, ...]
    source: Spec
    has_bias: bool
    conv: Convolution
    settings: Settings
    compute: ComputeChoice
    dtype: DataType
    memory_config: MemoryConfig | None
    slicing: Slicing | None
    now: Planned | None = None
    """Planned as it is."""

    @property
    def operation(self) -> str:
        return "conv_transpose2d" if isinstance(self.conv, TransposedConvolution) else "conv2d"

    @property
    def layer(self) -> str:
        return self.rows[0].name

    @property
    def working(self) -> Row:
        return next((row for row in self.rows if row.op in _WORKING), self.rows[-1])

    @cached_property
    def output(self) -> Spec:
        return spec_of(self.rows[-1].outputs[0])

    def but(self, **settings: Any) -> ConvolutionCall:
        return replace(self, settings=self.settings.but(**settings))

    def with_fidelity(self, fidelity: MathFidelity) -> ConvolutionCall:
        return replace(self, compute=ComputeChoice((fidelity, *self.compute[1:])))


class Replanner:
    """Plans calls on the memory that a profile had when it made them."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.card = profile.card_data
        self.calls: dict[int, tuple[Row, ...]] = {}
        for row in profile.rows:
            self.calls[row.call] = (*self.calls.get(row.call, ()), row)
        ends = [b.address + b.bank_bytes for b in profile.buffers if b.buffer_type == "L1"]
        self._l1_top = max(ends, default=self.card.l1_size - profile.l1_small_needed)
        self._convolutions: dict[int, ConvolutionCall | None] = {}

    def convolution(self, call: int) -> ConvolutionCall | None:
        """The call, where it is a convolution that planning reproduces."""
        if call not in self._convolutions:
            self._convolutions[call] = self._understood(self.calls[call])
        return self._convolutions[call]

    def plan_convolution(
        self, call: ConvolutionCall, *, source: Spec | None = None, like_before: bool = False
    ) -> Planned | None:
        """What it dispatches, from another input where one is given; None where the card refuses it.

        `like_before` brings the output to the memory where the profile has it, so that the next call finds it there.
        """
        conv = call.conv
        outer, inner = conv.out_channels, conv.in_channels
        if isinstance(conv, TransposedConvolution):
            outer, inner = inner, outer
        weights = Shape((outer, inner // conv.groups, *conv.kernel))
        bias = Spec(Shape((1, 1, 1, conv.out_channels)), DataType.FLOAT32, Layout.ROW_MAJOR)
        attributes = {
            "conv": conv,
            "settings": call.settings,
            "compute": call.compute,
            "dtype": call.dtype,
            "memory_config": call.output.memory_config if like_before else call.memory_config,
            "slicing": call.slicing,
            "input": 0,
            "weight": HostOperand(Spec(weights, DataType.FLOAT32, Layout.ROW_MAJOR)),
            "bias": HostOperand(bias) if call.has_bias else None,
            "returns": (False, False),
        }
        return self.plan(call.operation, [source or call.source], call.rows[0], attributes)

    def plan(self, name: str, specs: Sequence[Spec], at: Row, attributes: dict[str, Any]) -> Planned | None:
        """Any op on inputs of these specs, in the memory that was there when the row's call came."""
        memory, places = self._memory(specs, at)
        region = memory.regions[BufferType.L1]
        free = FreeMemory(
            region.size - region.allocated,
            region.largest_free,
            memory.regions[BufferType.DRAM].size,
            tuple(region.blocks()),
        )
        planner = Planner.for_specs(self.card, specs, list(range(len(specs))), free)
        try:
            plan = planner.finish(OPERATIONS[name].plan(planner, *planner.inputs, **attributes))
            placed = place(plan, memory, places, (), ProgramIds())
        except (CardError, AssertionError, KeyError, ValueError):
            return None
        steps = tuple(one.step for one in placed.steps)
        return Planned(steps, plan.outputs[0].spec, sum(kernel_cost(step, self.card).ns for step in steps))

    def time_of(self, *parts: Planned | Row) -> float:
        """Kernels with the gaps before them."""
        gap = min((row.gap_ns for row in self.profile.rows[1:]), default=0.0)
        return sum(
            part.cost.ns + gap if isinstance(part, Row) else part.kernel_ns + gap * len(part.steps) for part in parts
        )

    # --- reading ------------------------------------------------------------------------------------------------

    def _understood(self, rows: tuple[Row, ...]) -> ConvolutionCall | None:
        if rows[0].call_name not in CONVOLUTIONS:
            return None
        try:
            call = read_convolution(rows)
        except (KeyError, ValueError, SyntaxError, CardError):
            return None
        planned = self.plan_convolution(call)
        return replace(call, now=planned) if planned is not None and planned.is_like(rows) else None

    def _memory(self, specs: Sequence[Spec], at: Row) -> tuple[Memory, dict[int, Place]]:
        """L1 as it was before the row's call; inputs stand where the profile has them, or get room of their own."""
        start = self.calls[at.call][0]
        memory = Memory(self.card, l1_small_size=self.card.l1_size - self._l1_top)
        region = memory.regions[BufferType.L1]
        used = {
            b.address: round_up(b.bank_bytes, region.alignment)
            for b in self.profile.buffers
            if b.buffer_type == "L1" and b.bank_bytes and b.last_row >= start.index
            if b.first_row < start.index or b.born_before
        }
        own = start.inputs[0] if start.inputs else None
        if own is not None and own.buffer_type == "L1":
            size = self.profile.buffers[own.buffer].bank_bytes
            used[own.address] = round_up(size, region.alignment)
        gaps, low = [], region.base
        for address in sorted(used):
            if address > low:
                gaps.append((low, address))
            low = max(low, address + used[address])
        if low < region.base + region.size:
            gaps.append((low, region.base + region.size))
        region.restore((gaps, used))
        places = {}
        for number, spec in enumerate(specs):
            need = memory.footprint(spec)
            if need.buffer_type is not BufferType.L1 or not used:
                address = memory.allocate(need)
            elif number == 0 and own is not None and own.address in used:
                address = own.address
            else:
                address = max(used)  # it is in memory already; where does not matter to a plan
            places[number] = Place(need.buffer_type, address, need.bank_bytes)
        return memory, places


# --- from text ------------------------------------------------------------------------------------------------------


def spec_of(record: TensorRecord) -> Spec:
    config = memory_config_of(record.memory_config)
    shape = Shape(record.shape)
    spec = Spec(shape, DataType[record.dtype], Layout[record.layout], config)
    if tuple(spec.padded_shape) != record.padded_shape:
        spec = Spec(shape, spec.dtype, spec.layout, config, record.padded_shape[-2:])
    return spec


_RANGE = re.compile(r'"start":\{"x":(\d+),"y":(\d+)\},"end":\{"x":(\d+),"y":(\d+)\}')


def memory_config_of(text: str) -> MemoryConfig:
    layout = re.search(r"TensorMemoryLayout::(\w+)", text)
    buffer = re.search(r"BufferType::(\w+)", text)
    shape = re.search(r"shape=\[(\d+), (\d+)\], orientation=ShardOrientation::(\w+)", text)
    if layout is None or buffer is None or ("ShardSpec{" in text and shape is None):
        raise ValueError(f"{text!r} is no memory config")
    shard = None
    if shape is not None:
        corners = [tuple(map(int, found)) for found in _RANGE.findall(text)]
        ranges = [CoreRange(CoreCoord(a, b), CoreCoord(c, d)) for a, b, c, d in corners]
        orientation = ShardOrientation[shape.group(3)]
        shard = ShardSpec(CoreRangeSet(ranges), [int(shape.group(1)), int(shape.group(2))], orientation)
    return MemoryConfig(TensorMemoryLayout[layout.group(1)], BufferType[buffer.group(1)], shard)


def activation_of(text: str) -> Any:
    name, parameters = re.fullmatch(r"\(UnaryOpType\.(\w+), (.*)\)", text).groups()  # type: ignore[union-attr]
    return UnaryOpType[name], literal_eval(parameters)


def _compute(text: str) -> ComputeChoice:
    fidelity, rest = re.fullmatch(r"\(MathFidelity\.(\w+), (.*)\)", text).groups()  # type: ignore[union-attr]
    return ComputeChoice((MathFidelity[fidelity], *literal_eval(f"({rest})")))


def _no_reading(text: str) -> Any:
    raise ValueError(f"{text!r} cannot be read back")


_READERS: dict[str, Callable[[str], Any]] = {
    "settings.weights_dtype": DataType.__getitem__,
    "settings.activation": activation_of,
    "settings.shard_layout": TensorMemoryLayout.__getitem__,
    "settings.core_grid": _no_reading,
    "settings.output_layout": Layout.__getitem__,
    "settings.padding_mode": PaddingMode.__getitem__,
    "compute": _compute,
    "dtype": DataType.__getitem__,
    "memory_config": memory_config_of,
    "slicing.kind": lambda text: SliceTypeEnum[text.rsplit(".", 1)[-1]],
}


def read_convolution(rows: tuple[Row, ...]) -> ConvolutionCall:
    values = {name: _READERS.get(name, literal_eval)(text) for name, text in rows[0].arguments}

    def group(prefix: str) -> dict[str, Any]:
        return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}

    slicing = group("slicing.")
    kind = TransposedConvolution if rows[0].call_name == "ttnn.conv_transpose2d" else Convolution
    return ConvolutionCall(
        rows=rows,
        source=spec_of(rows[0].inputs[0]),
        has_bias=any(len(row.inputs) > 2 for row in rows if row.op in _WORKING)
        or any(row.op == "BinaryNg" for row in rows),
        conv=kind(**group("conv.")),
        settings=Settings(**group("settings.")),
        compute=values["compute"],
        dtype=values["dtype"],
        memory_config=values.get("memory_config"),
        slicing=Slicing(**slicing) if slicing else None,
    )
