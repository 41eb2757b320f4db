# SPDX-License-Identifier: Apache-2.0
"""Published kernel times of single calls: reading the rows, and planning calls on a card like the one measured.

A row says the op, its arguments as the source has them, the published nanoseconds, and how the call was reconstructed
(`planned`: the specs of its inputs and outputs, shards included; `virtual`: card, grid and DRAM banks). Rows that do
not say enough (`replayable` false) are skipped with their reason.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from tt_cnn.virtual import ttnn
from tt_cnn.virtual.arch import Card, card_by_name
from tt_cnn.virtual.devices.device import MeshDevice
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.ops.operation import OPERATIONS, make_plan
from tt_cnn.virtual.planning.plan import FreeMemory, Planner, Refuse, Step
from tt_cnn.virtual.tensors.storage import HostStorage
from tt_cnn.virtual.tensors.tensor import Tensor
from tt_cnn.virtual.types.geometry import MeshShape, Shape
from tt_cnn.virtual.types.tensor_spec import Spec

FIRMWARE_NS = 850.0
"""What a firmware duration has above the kernels' (0.7 to 1.0 us in dumps that print both)."""


class NotReplayed(Exception):
    """A row that cannot be made into a call; the message says why."""


@dataclass(frozen=True)
class Row:
    """One published duration."""

    id: str
    op: str
    set: str
    family: str
    """`n150` for Wormhole, `p150` for Blackhole."""
    published_ns: float
    measure: str
    times: int
    """How often the call occurs in its source."""
    date: str
    """Begins with the year and, mostly, the month."""
    args: dict[str, Any]
    planned: dict[str, Any]
    virtual: dict[str, Any] | None
    reason: str

    @property
    def attributes(self) -> dict[str, Any]:
        """The profiler's, of rows that come from a dump."""
        return self.args.get("attrs", {})


def read_rows(path: Path) -> list[Row]:
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as lines:
        data = [json.loads(line) for line in lines if line.strip()]
    cards = {one["card"]: one["virtual"] for one in data if one["replayable"]}
    return [_row(one, cards) for one in data]


_PLANNED_SINCE = (
    "the virtual card has no MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig",
    "the virtual card has no mac",
    "the virtual card has no grid_sample",
)
"""Reasons why rows were not replayable that hold no more. Their cards are those that others name in the same words."""


def _row(data: dict[str, Any], cards: dict[str, dict[str, Any]]) -> Row:
    if data.get("reason") in _PLANNED_SINCE and data["card"] in cards:
        data |= {"replayable": True, "reason": "", "virtual": cards[data["card"]]}
    ns = data["ns"] - FIRMWARE_NS if data["measure"] == "fw" else data["ns"]
    return Row(
        id=data["id"],
        op=data["op"],
        set=data["set"],
        family="n150" if data["card"].startswith("wormhole") else "p150",
        published_ns=ns,
        measure=data["measure"],
        times=data.get("n") or 1,
        date=data["date"],
        args=data["args"],
        planned=data.get("planned") or {},
        virtual=data.get("virtual") if data["replayable"] else None,
        reason="" if data["replayable"] else data.get("reason", "not replayable"),
    )


class Lab:
    """An open card on which calls are planned and placed, and nothing is computed."""

    def __init__(self, card: Card) -> None:
        self.card = card
        self.device = MeshDevice(
            card, shape=MeshShape(1, 1), device_ids=[0], l1_small_size=32768, engine="torch", hazards="off"
        )
        self.device.never_dispatches = True
        self.device.advises = False

    def tensor(self, spec: Spec) -> Tensor:
        """A device tensor without values."""
        return Tensor.on_device(spec, self.device.allocate(spec, "op_times"))

    def host(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """A host tensor without values."""
        return Tensor.on_host(Spec(Shape(shape), dtype, ttnn.ROW_MAJOR_LAYOUT), HostStorage([torch.empty(0)]))

    def plan(self, name: str, *args: Any, **kwargs: Any) -> list[Step]:
        """The steps of a call by its arguments."""
        operation = OPERATIONS[name]
        call = operation.bind(args, kwargs)
        if operation.shortcut(call) is not None:
            raise NotReplayed("nothing is dispatched for this call")
        specs = [tensor.spec for tensor in call.tensors]
        plan = make_plan(self.device, operation, specs, list(range(len(specs))), call.attributes)
        for action in plan.actions:
            if isinstance(action, Refuse):
                raise NotReplayed(f"refused: {first_line(action.error)}")
        return plan.steps

    def planned(self, specs: Sequence[Spec], work: Callable[..., Any]) -> list[Step]:
        """The steps of a planning function that is no call of its own."""
        planner = Planner.for_specs(self.card, list(specs), list(range(len(specs))), FreeMemory.of(self.device.memory))
        work(planner, *planner.inputs)
        return planner.finish(()).steps


_labs: dict[Card, Lab] = {}


def lab_of(row: Row) -> Lab:
    """A card with the grid and the DRAM banks that the measured one had."""
    assert row.virtual is not None
    card = card_by_name(row.virtual["card"])
    card = replace(card, grid=tuple(row.virtual["grid"]), dram_banks=row.virtual["dram_banks"])
    if card not in _labs:
        _labs[card] = Lab(card)
    return _labs[card]


def first_line(error: Exception) -> str:
    return " ".join((error.message if isinstance(error, CardError) else str(error)).split())[:110]


class Bench:
    """One row with its card: what is needed to make its call."""

    def __init__(self, row: Row) -> None:
        self.row, self.lab = row, lab_of(row)
        self.args, self.attributes = row.args, row.attributes

    def spec(self, index: int = 0) -> Spec:
        return read_spec(self.row.planned["inputs"][index])

    def said_spec(self, given: dict[str, Any]) -> Spec:
        """Of an interleaved tensor as the source says it, where no plan was recorded."""
        config = ttnn.DRAM_MEMORY_CONFIG if given["mem"] == "DRAM_INTERLEAVED" else ttnn.L1_MEMORY_CONFIG
        return Spec(Shape(given["shape"]), read_dtype(given["dtype"]), read_layout(given["layout"]), config)

    @property
    def inputs(self) -> int:
        return len(self.row.planned["inputs"])

    def input(self, index: int = 0) -> Tensor:
        return self.lab.tensor(self.spec(index))

    @cached_property
    def output(self) -> Spec:
        return read_spec(self.row.planned["outputs"][0])

    @property
    def output_config(self) -> Any:
        return self.output.memory_config

    @property
    def output_dtype(self) -> Any:
        return self.output.dtype

    @property
    def compute(self) -> Any:
        return compute_config(self.attributes.get("compute_kernel_config"))


# --- values as the rows write them ----------------------------------------------------------------------------------


def read_spec(given: dict[str, Any]) -> Spec:
    layout, buffer = ttnn.TensorMemoryLayout[given["memory"]], ttnn.BufferType[given["buffer"]]
    shard = given.get("shard")
    if shard is not None:
        orientation = ttnn.ShardOrientation[shard["orientation"]]
        shard = ttnn.ShardSpec(read_cores(shard["grid"]), shard["shape"], orientation)
    config = ttnn.MemoryConfig(layout, buffer, shard)
    return Spec(Shape(given["shape"]), read_dtype(given["dtype"]), read_layout(given["layout"]), config)


def read_config(given: dict[str, Any]) -> Any:
    """Of a memory config as the rows' attributes have it."""
    layout, buffer = ttnn.TensorMemoryLayout[given["layout"]], ttnn.BufferType[given["buffer"]]
    if "shard" not in given:
        return ttnn.MemoryConfig(layout, buffer)
    shard = ttnn.ShardSpec(read_cores(given["grid"]), given["shard"], ttnn.ShardOrientation[given["orient"]])
    return ttnn.MemoryConfig(layout, buffer, shard)


def read_dtype(name: str) -> Any:
    return ttnn.DataType[name.replace("DataType::", "").split()[0]]


def read_layout(name: str) -> Any:
    return ttnn.Layout[name.replace("Layout::", "")]


def read_numbers(text: str) -> list[int]:
    """Of `Shape([1; 1; 32; 256])` or `SmallVector([0; -1])`."""
    return [int(number) for number in re.findall(r"-?\d+", text)]


def read_pair(text: str) -> tuple[int, int]:
    """Of `(x=8;y=4)` or `8-4`."""
    x, y = (int(number) for number in re.findall(r"\d+", text))
    return x, y


def read_cores(text: str) -> Any:
    """Of `{[0-0 - 7-7]}` or `{[(x=0;y=0)-(x=7;y=7)]}`."""
    found = [[int(n) for n in re.findall(r"\d+", part)] for part in re.findall(r"\[([^\]]*)\]", text)]
    return ttnn.CoreRangeSet([ttnn.CoreRange((a, b), (c, d)) for a, b, c, d in found])


def is_true(value: Any) -> bool:
    return str(value).lower() in ("true", "1")


def read_struct(text: str) -> tuple[str, dict[str, str]]:
    """`Name(a=1;b=(x=2;y=3))` as its name and its fields."""
    name, _, inside = text.partition("(")
    parts, depth, start = [], 0, 0
    inside = inside.rsplit(")", 1)[0]
    for i, char in enumerate(inside):
        depth += (char in "({[<") - (char in ")}]>")
        if char == ";" and depth == 0:
            parts.append(inside[start:i])
            start = i + 1
    parts.append(inside[start:])
    return name, dict(part.strip().split("=", 1) for part in parts if "=" in part)


def read_activations(text: str) -> list[Any]:
    found = re.findall(r"op_type=UnaryOpType::(\w+)(?:;param=\{([^}]*)\})?", text or "")
    return [
        ttnn.UnaryWithParam(ttnn.UnaryOpType[name], *(float(p) for p in params.split(";") if p.strip()))
        for name, params in found
    ]


def compute_config(given: dict[str, Any] | None, fidelity: str | None = None) -> Any:
    """None where no fidelity is said: the library's default."""
    given = given or {}
    fidelity = given.get("fidelity", fidelity)
    if fidelity is None:
        return None
    return ttnn.WormholeComputeKernelConfig(
        math_fidelity=ttnn.MathFidelity[fidelity],
        math_approx_mode=is_true(given.get("approx", True)),
        fp32_dest_acc_en=is_true(given.get("fp32_dest_acc", False)),
        packer_l1_acc=is_true(given.get("packer_l1_acc", False)),
    )


def rectangle(x: int, y: int) -> Any:
    return ttnn.CoreRangeSet([ttnn.CoreRange((0, 0), (x - 1, y - 1))])
