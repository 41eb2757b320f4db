"""Traces: the commands of one queue recorded once and replayed as a whole.

While a trace is captured, calls are planned and placed as always but not run. No recording of the real trace sizes
exists, so the size is an estimate: what the fast-dispatch commands of a program take, from its kernels, circular
buffers and cores.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tt_cnn.virtual.errors import current_layer, fatal
from tt_cnn.virtual.hazards import Access
from tt_cnn.virtual.memory import Footprint
from tt_cnn.virtual.placement import Place, PlacedStep
from tt_cnn.virtual.queues import Command
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.geometry import div_up, round_up

if TYPE_CHECKING:
    from tt_cnn.virtual.device import MeshDevice

log = logging.getLogger("tt_cnn.virtual")

TRACE_PAGE = 2048
"""Bytes of a page of a trace buffer; the estimate is rounded up to whole pages over the DRAM banks."""
_STEP_BYTES = 1024
"""Estimate: launch message, kernel configuration header and waits of one program."""
_BUFFER_BYTES = 16
"""Estimate: configuration of one circular buffer in one kernel group."""
_CORE_BYTES = 64
"""Estimate: unique runtime arguments of one core."""


class MeshTraceId(int):
    """The number of a trace."""

    def __repr__(self) -> str:
        return f"MeshTraceId({int(self)})"


@dataclass
class Trace:
    id: MeshTraceId
    queue: int
    commands: list[Command] = field(default_factory=list)
    size: int = 0
    place: Place | None = None
    accesses: list[Access] = field(default_factory=list)
    allocations_at_end: int = 0
    checked_at: int = -1

    def close(self, allocations: int) -> None:
        self.size = estimate_size([s for c in self.commands for s in c.steps])
        self.allocations_at_end = allocations
        self.accesses = _merged([a for c in self.commands for a in c.accesses])


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


def reserve(device: MeshDevice, trace: Trace) -> None:
    """Find the trace a place: in the trace region, or at the top of DRAM where none was set apart."""
    region = device.memory.regions[BufferType.TRACE]
    banks = device.card.dram_banks
    bank_bytes = round_up(div_up(trace.size, banks), device.card.dram_alignment)
    if region.size:
        used = sum(t.size for t in device.traces.values() if t.place is not None)
        fatal(
            used + trace.size <= device.trace_region_size,
            f"Creating trace buffers of size {used + trace.size}B on MeshDevice {device.id()}, but only "
            f"{device.trace_region_size}B is allocated for trace region.",
            f"  open the device with trace_region_size={round_up(used + trace.size, 4096)} or more (an estimate), or "
            f"with 0 to let the trace go to the top of DRAM",
        )
        footprint = Footprint(BufferType.TRACE, bank_bytes, banks, bank_bytes * banks)
        trace.place = Place(BufferType.TRACE, device.memory.allocate(footprint), bank_bytes)
        return
    dram = device.memory.regions[BufferType.DRAM]
    top = dram.base + dram.size - bank_bytes
    trace.place = Place(BufferType.DRAM, top, bank_bytes)
    log.info(
        "trace %d goes to the top of DRAM; TT-NN before 0.80 would need trace_region_size >= %d (an estimate)",
        trace.id,
        trace.size,
    )


def check_live_buffers(device: MeshDevice, trace: Trace) -> None:
    """What was allocated after the capture may lie where the replay writes."""
    if trace.checked_at == device.allocations or device.allocations == trace.allocations_at_end:
        return
    trace.checked_at = device.allocations
    written = [a for a in trace.accesses if a.write]
    for buffer in list(device.live_buffers):
        if buffer.serial <= trace.allocations_at_end or not buffer.allocated:
            continue
        place = buffer.place
        for access in written:
            if (
                access.kind is place.buffer_type
                and access.start < place.address + place.bank_bytes
                and place.address < access.end
            ):
                device.hazards.report(
                    f"replaying trace {int(trace.id)} writes {access.what} at {access.kind.name} address {access.start}, "
                    f"where a tensor allocated after the capture lives (address {place.address}, {place.bank_bytes} B a "
                    f"bank{_by(buffer.made_by)}).\n"
                    f"  allocate it before begin_trace_capture, or deallocate it before execute_trace"
                )
                break


def _by(name: str) -> str:
    layer = current_layer()
    return f", made by {name}" + (f" in {layer}" if layer else "") if name else ""
