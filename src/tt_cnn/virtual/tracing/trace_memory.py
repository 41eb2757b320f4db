# SPDX-License-Identifier: Apache-2.0
"""The memory that traces stand on.

A card replays commands on addresses, whoever holds them by then. Here commands hold cells, one for each buffer, and two
rules make that the same. A buffer that comes to lie where a buffer of a trace lay, with the same spec, takes over its
cell: what is written there is what replays read, and what replays write is what is read there. Where anything else was
written over a cell it is lost: what its bytes are under another spec is not modelled, so that reading it, by a replay
or by a call, is refused until it is written again.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple, Protocol, SupportsInt

from tt_cnn.virtual.hazards.hazards import Access, HazardChecker
from tt_cnn.virtual.planning.placement import Place
from tt_cnn.virtual.queues.accesses import circular_buffers
from tt_cnn.virtual.queues.queue import Command
from tt_cnn.virtual.tensors.storage import Cell, Contents, LiveBuffer
from tt_cnn.virtual.types.enums import BufferType
from tt_cnn.virtual.types.tensor_spec import Spec


class Books(Protocol):
    """A device, as the memory of its traces sees it."""

    allocations: int
    cells: dict[int, Cell]
    hazards: HazardChecker
    live: dict[int, LiveBuffer]
    loose: Loose


class RecordedTrace(Protocol):
    """A trace, as its memory sees it."""

    commands: list[Command]
    memory: TraceMemory

    @property
    def id(self) -> SupportsInt: ...

    def also_fill(self, cell: Cell) -> None: ...


class Write(NamedTuple):
    """A range that a command writes, and the cell that has its values; temporaries and circular buffers have none."""

    access: Access
    cell: Cell | None

    def reaches(self, place: Place) -> bool:
        kind, start, end, *_ = self.access
        return kind is place.buffer_type and start < place.address + place.bank_bytes and place.address < end


def writes_of(command: Command) -> list[Write]:
    """All memory that a command writes; its results come last, since they are there when it is done."""
    results = {(c.place.buffer_type, c.place.address, c.place.bank_bytes): c for c in command.writes}
    written = [Write(a, results.get((a.kind, a.start, a.end - a.start))) for a in command.accesses if a.write]
    written += [Write(access, None) for access in circular_buffers(command.steps)]
    return sorted(written, key=lambda write: write.cell is not None)


def reads_of(command: Command) -> Iterator[Cell]:
    """Cells whose values matter to a command; `Command.reads` also has tensors that it was given to write into."""
    if command.plan is None:
        yield from command.reads
        return
    for slot, cell in zip(command.plan.inputs, command.reads, strict=True):
        if slot.buffer not in command.plan.only_written:
            yield cell


class TraceMemory:
    """What the replays of one trace read and write."""

    def __init__(self, allocations: int) -> None:
        self.reads: dict[int, Cell] = {}
        """Read before the trace itself has written them, by `id`."""
        self.outputs: dict[int, Cell] = {}
        """What every replay must leave values in: cells that buffers hold, and loose ones."""
        self.given_back: list[Cell] = []
        """Of buffers freed during the capture. A model may free its input, which the caller then allocates again."""
        self.placed: list[Cell] = []
        """Of buffers allocated during the capture by others than its commands."""
        self._writes: list[Write] = []
        self._cells: dict[tuple[Place, Spec], Cell] = {}
        self._captured = allocations
        """Buffers up to this serial were allocated before the capture ended."""
        self._looked_at = allocations
        """It is known of buffers up to this serial whether replays write over them."""
        self._loose_version = -1
        """The same of loose cells."""
        self._fills: dict[int, Cell] = {}
        """Outputs that have no values before the next replay."""
        self._lost: dict[int, Cell] = {}
        """What is read and was lost; it may have been written again since."""
        self._never_written: list[Cell] = []
        self._over_live: list[tuple[int, Cell, Write]] = []
        """Buffers that replays write over, by their serials."""
        self._loose: dict[int, tuple[Cell, Write | None]] = {}
        """Loose cells of all traces, and what replays write over them last."""
        self._over_loose: list[tuple[Cell, Write]] = []
        self._astray: tuple[Cell, Write] | None = None
        """A cell that a command reads after another has written over it, in every replay."""

    # --- the capture --------------------------------------------------------------------------------------------

    def close(self, commands: Sequence[Command], live: Iterable[Cell], allocations: int) -> None:
        self.reads = _read_first(commands)
        self._writes = [write for command in commands for write in writes_of(command)]
        self._captured = allocations
        written = {id(cell): cell for command in commands for cell in command.writes}
        self._cells = {(cell.place, cell.spec): cell for cell in (*written.values(), *self.reads.values())}
        held = {id(cell) for cell in live}
        self.outputs = {key: cell for key, cell in written.items() if key in held and self._last_is(cell)}
        self._fills = {key: cell for key, cell in self.outputs.items() if not cell.written}
        self._lost = {key: cell for key, cell in self.reads.items() if cell.contents is Contents.LOST}
        self._never_written = [cell for cell in self.reads.values() if cell.contents is Contents.NOTHING]
        self._astray = next(filter(None, (_astray(cell, commands) for cell in self.placed)), None)
        self.given_back.clear()
        self.placed.clear()

    def cell_at(self, place: Place, spec: Spec) -> Cell | None:
        """The cell that a buffer allocated there takes over: the one that replays read, else what they write last."""
        return self._cells.get((place, spec))

    def given_back_at(self, place: Place, spec: Spec, commands: Sequence[Command]) -> Cell | None:
        """The same while the capture goes on."""
        found = [cell for cell in self.given_back if cell.place == place and cell.spec == spec]
        if len(found) < 2:
            return found[0] if found else None
        reads = _read_first(commands)
        return next((cell for cell in found if id(cell) in reads), found[-1])

    # --- replays ------------------------------------------------------------------------------------------------

    def check(self, device: Books, trace: RecordedTrace) -> None:
        """Before a replay: refuse it where it is unknown what it would read, and report what it writes over."""
        who = f"replaying trace {int(trace.id)}"
        if self._astray is not None:
            cell, write = self._astray
            device.hazards.refuse(
                f"{who} reads {_where(cell)}, which was allocated during the capture, after it has written "
                f"{write.access.what} over it.\n  allocate it before begin_trace_capture"
            )
        if self._lost:
            self._lost = {key: cell for key, cell in self._lost.items() if cell.contents is Contents.LOST}
            for cell in self._lost.values():
                device.hazards.refuse(
                    f"{who} reads {_where(cell)}, but {cell.lost_to} wrote over it, and nothing has written it since.\n"
                    f"  keep what a trace reads allocated, or write it again before every execute_trace"
                )
        if self._never_written:
            self._never_written = [c for c in self._never_written if c.contents is Contents.NOTHING]
            for cell in self._never_written:
                device.hazards.never_written(who, _where(cell))
        if device.allocations != self._looked_at:
            self._look_at_buffers(device, who, trace.also_fill)
        if device.loose.version != self._loose_version:
            self._look_at_loose(device.loose, trace.also_fill)

    def _look_at_buffers(self, device: Books, who: str, also_fill: Callable[[Cell], None]) -> None:
        """What was allocated since the capture began may lie where the replay writes. Each buffer is looked at once."""
        found: list[tuple[int, Cell, Write]] = []
        for serial in reversed(device.live):
            if serial <= self._looked_at:
                break
            place, _, made_by = device.live[serial]
            write = self._last_over(place)
            if write is None:
                continue
            found.append((serial, device.cells[serial], write))
            if serial > self._captured:
                kind, start, _, _, what = self._first_over(place).access
                device.hazards.report(
                    f"{who} writes {what} at {kind.name} address {start}, where a tensor allocated after the capture "
                    f"lives (address {place.address}, {place.bank_bytes} B a "
                    f"bank{f', made by {made_by}' if made_by else ''}).\n"
                    f"  allocate it before begin_trace_capture, or deallocate it before execute_trace"
                )
        for serial, cell, write in found:
            if write.cell is cell:
                self._fill(cell, also_fill)
            else:
                self._over_live.append((serial, cell, write))
        self._looked_at = device.allocations

    def _look_at_loose(self, loose: Loose, also_fill: Callable[[Cell], None]) -> None:
        known = self._loose
        self._loose = {key: known.get(key) or (one, self._last_over(one.place)) for key, one in loose.cells.items()}
        self._over_loose = []
        for cell, write in self._loose.values():
            if write is not None and write.cell is cell:
                self._fill(cell, also_fill)
            elif write is not None:
                self._over_loose.append((cell, write))
        self._loose_version = loose.version

    def replayed(self, device: Books, trace: RecordedTrace) -> None:
        """A replay is enqueued: what it writes is there, and what it writes over is not."""
        if self._fills:
            for cell in self._fills.values():
                cell.will_be_written()
            self._fills.clear()
            device.loose.written_again()
        if self._over_live:
            self._over_live = [one for one in self._over_live if one[0] in device.live]
        for cell, write in (*((cell, write) for _, cell, write in self._over_live), *self._over_loose):
            device.loose.lose(cell, f"a replay of trace {int(trace.id)} ({write.access.what})")

    def lost(self, cell: Cell) -> None:
        """Something was written over a cell of any trace."""
        if id(cell) in self.reads:
            self._lost[id(cell)] = cell
        if id(cell) in self.outputs:
            self._fills[id(cell)] = cell

    def forget_loose(self) -> None:
        """Hold on to no cell of a trace that was released."""
        self._loose, self._over_loose, self._loose_version = {}, [], -1

    # --- what is written where ----------------------------------------------------------------------------------

    def _fill(self, cell: Cell, also_fill: Callable[[Cell], None]) -> None:
        if id(cell) not in self.outputs:
            self.outputs[id(cell)] = cell
            also_fill(cell)
        self._fills[id(cell)] = cell

    def _last_over(self, place: Place) -> Write | None:
        return next((write for write in reversed(self._writes) if write.reaches(place)), None)

    def _first_over(self, place: Place) -> Write:
        return next(write for write in self._writes if write.reaches(place))

    def _last_is(self, cell: Cell) -> bool:
        """A cell's own values are in its memory when the replay is done."""
        last = self._last_over(cell.place)
        return last is None or last.cell is cell


class Loose:
    """Cells that traces read and no buffer holds. Whatever is written to their memory, a replay would read."""

    def __init__(self, traces: Mapping[int, RecordedTrace]) -> None:
        self._traces = traces
        self.cells: dict[int, Cell] = {}
        self.version = 0
        """Another number after every change."""
        self._ranges: _Ranges | None = None
        """Of those that are not lost yet."""

    def let_go(self, cell: Cell, capturing: RecordedTrace | None) -> None:
        """A buffer was freed. During a capture that may be one of a command to come, so all are kept for now."""
        if capturing is not None:
            capturing.memory.given_back.append(cell)
        if capturing is not None or any(id(cell) in trace.memory.reads for trace in self._traces.values()):
            self.cells[id(cell)] = cell
            self._changed()

    def cell_for(self, place: Place, spec: Spec, capturing: RecordedTrace | None) -> Cell:
        """For a new buffer, which may lie where one of a trace lay. Results of a trace's commands have cells of their
        own: a replay may write several things to one place, one after the other."""
        traced = self._traces or capturing is not None
        cell = (self._take(place, spec, capturing) if traced and place.address else None) or Cell(place, spec)
        if capturing is not None:
            capturing.memory.placed.append(cell)
        return cell

    def _take(self, place: Place, spec: Spec, capturing: RecordedTrace | None) -> Cell | None:
        """The cell of a trace; one that replays read goes first. A dry run has all buffers at address 0."""
        found = [trace.memory.cell_at(place, spec) for trace in self._traces.values()]
        if capturing is not None:
            found.append(capturing.memory.given_back_at(place, spec, capturing.commands))
        cells = [cell for cell in reversed(found) if cell is not None]
        if not cells:
            return None
        cell = next((one for one in cells if id(one) in self.cells), cells[0])
        followed = self.cells.pop(id(cell), None) is not None
        if followed:
            self._changed()
        if cell.written:
            cell.contents = Contents.FORMER if followed else Contents.NOTHING
        return cell

    def written_over(self, command: Command) -> None:
        """A command is enqueued; a cell that it reads or writes has a buffer, so is not among these."""
        if self._ranges is None:
            self._ranges = _Ranges(cell for cell in self.cells.values() if cell.contents is not Contents.LOST)
        written = [write for write in writes_of(command) if self._ranges.meet(write.access)]
        if written:
            for cell in self.cells.values():
                if cell.contents is not Contents.LOST and any(write.reaches(cell.place) for write in written):
                    self.lose(cell, str(command))

    def _changed(self) -> None:
        self.version += 1
        self._ranges = None

    def written_again(self) -> None:
        """Replays may have written what was lost."""
        self._ranges = None

    def lose(self, cell: Cell, to: str) -> None:
        cell.contents, cell.lost_to = Contents.LOST, to
        if id(cell) in self.cells:
            self._ranges = None
        for trace in self._traces.values():
            trace.memory.lost(cell)

    def forget(self) -> None:
        """Drop what no trace reads, after a capture has ended or a trace was released."""
        read = {key for trace in self._traces.values() for key in trace.memory.reads}
        self.cells = {key: cell for key, cell in self.cells.items() if key in read}
        self._changed()
        for trace in self._traces.values():
            trace.memory.forget_loose()


class _Ranges:
    """Finds out quickly that a range meets none of many: the model behind a trace may have dropped all its weights."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        places: dict[BufferType, list[tuple[int, int]]] = {}
        for cell in cells:
            here = cell.place
            places.setdefault(here.buffer_type, []).append((here.address, here.address + here.bank_bytes))
        self._sorted = {
            kind: ([start for start, _ in sorted(found)], list(accumulate((end for _, end in sorted(found)), max)))
            for kind, found in places.items()
        }

    def meet(self, access: Access) -> bool:
        starts, ends = self._sorted.get(access.kind, ((), ()))
        before = bisect_left(starts, access.end)
        return before > 0 and ends[before - 1] > access.start


def _read_first(commands: Sequence[Command]) -> dict[int, Cell]:
    written: set[int] = set()
    found: dict[int, Cell] = {}
    for command in commands:
        for cell in reads_of(command):
            if id(cell) not in written:
                found.setdefault(id(cell), cell)
        written.update(id(cell) for cell in command.writes)
    return found


def _astray(cell: Cell, commands: Sequence[Command]) -> tuple[Cell, Write] | None:
    """The write that a command finds in place of a cell it reads, where there is one."""
    over: Write | None = None
    for command in commands:
        if over is not None and any(cell is one for one in reads_of(command)):
            return cell, over
        for write in writes_of(command):
            if write.reaches(cell.place):
                over = None if write.cell is cell else write
    return None


def _where(cell: Cell) -> str:
    return f"{cell} at {cell.place.buffer_type.name} address {cell.place.address}"
