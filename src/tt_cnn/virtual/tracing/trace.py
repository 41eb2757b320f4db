# SPDX-License-Identifier: Apache-2.0
"""Traces: the commands of one queue recorded once and replayed as a whole.

While a trace is captured, calls are planned and placed as always but not run. No recording of the real trace sizes
exists, so the size is an estimate: what the fast-dispatch commands of a program take, from its kernels, circular
buffers and cores.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tt_cnn.virtual.engines import Engine
from tt_cnn.virtual.errors.card_error import CardError
from tt_cnn.virtual.hazards.hazards import Access, Accesses
from tt_cnn.virtual.memory.memory import Memory
from tt_cnn.virtual.planning.placement import Place, PlacedStep
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import Cell
from tt_cnn.virtual.tracing.trace_memory import TraceMemory
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import div_up, round_up

log = logging.getLogger("tt_cnn.virtual")

TRACE_PAGE = 2048
"""Bytes of a page of a trace buffer; the estimate is rounded up to whole pages over the DRAM banks."""
_STEP_BYTES = 1024
"""Estimate: launch message, kernel configuration header and waits of one program."""
_BUFFER_BYTES = 16
"""Estimate: configuration of one circular buffer in one kernel group."""
_CORE_BYTES = 64
"""Estimate: unique runtime arguments of one core."""


@dataclass(frozen=True)
class MeshTraceId:
    """The number of a trace."""

    value: int

    def __int__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"MeshTraceId({self.value})"


@dataclass
class Trace:
    id: MeshTraceId
    queue: int
    memory: TraceMemory
    commands: list[Command] = field(default_factory=list)
    replay: Callable[[], None] | None = None
    """What a replay runs, made by the engine when the capture ends."""
    size: int = 0
    place: Place | None = None
    accesses: Accesses = field(default_factory=Accesses)
    _replays: dict[int, Command] = field(default_factory=dict)

    def close(self, live: Iterable[Cell], allocations: int, engine: Engine) -> None:
        """The capture has ended; `live` are the cells of all buffers in use."""
        self.memory.close(self.commands, live, allocations)
        self.replay = engine.replay(self.commands, list(self.memory.outputs.values()))
        self.size = estimate_size([s for c in self.commands for s in c.steps])
        self.accesses = Accesses(_merged([a for c in self.commands for a in c.accesses]))

    def also_fill(self, cell: Cell) -> None:
        """Replays leave values in one more cell. Those that run the commands one by one do so for all of them."""
        compiled = getattr(self.replay, "also_fill", None)
        if compiled is not None:
            compiled(cell)

    def command_on(self, queue: int) -> Command:
        """The replay as one command, the same every time."""
        if queue not in self._replays:
            assert self.replay is not None, "a trace is replayed after its capture has ended"
            number = int(self.id)
            self._replays[queue] = Command(
                f"replay of trace {number}", queue, self.replay, self.accesses, trace_id=number
            )
        return self._replays[queue]


def estimate_size(steps: list[PlacedStep]) -> int:
    total = 0
    for placed in steps:
        cores = placed.step.cores.num_cores()
        total += _STEP_BYTES + _BUFFER_BYTES * len(placed.step.buffers) + _CORE_BYTES * cores
    return round_up(max(total, 1), TRACE_PAGE)


def _merged(accesses: list[Access]) -> list[Access]:
    """One access a range; a range that is written anywhere in the trace counts as written."""
    ranges: dict[tuple[BufferType, int, int], Access] = {}
    for access in accesses:
        key = (access.kind, access.start, access.end)
        if key not in ranges or access.write:
            ranges[key] = access
    return list(ranges.values())


def reserve(trace: Trace, memory: Memory, others: Iterable[Trace], region_size: int, device_id: int) -> None:
    """Find the trace a place: in the trace region, or at the top of DRAM where none was set apart."""
    region, card = memory.regions[BufferType.TRACE], memory.card
    bank_bytes = round_up(div_up(trace.size, card.dram_banks), card.dram_alignment)
    if region.size:
        used = sum(t.size for t in others if t.place is not None)
        fits = used + trace.size <= region_size
        address = region.allocate(bank_bytes) if fits else None
        if address is None:
            raise CardError(
                f"Creating trace buffers of size {used + trace.size}B on MeshDevice {device_id}, but only "
                f"{region_size}B is allocated for trace region.",
                f"  open the device with trace_region_size={round_up(used + trace.size, 4096)} or more (an estimate), "
                f"or with 0 to let the trace go to the top of DRAM",
            )
        trace.place = Place(BufferType.TRACE, address, bank_bytes)
        return
    dram = memory.regions[BufferType.DRAM]
    trace.place = Place(BufferType.DRAM, dram.base + dram.size - bank_bytes, bank_bytes)
    log.info(
        "trace %d goes to the top of DRAM; TT-NN before 0.80 would need trace_region_size >= %d (an estimate)",
        int(trace.id),
        trace.size,
    )
