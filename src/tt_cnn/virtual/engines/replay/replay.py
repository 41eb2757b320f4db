# SPDX-License-Identifier: Apache-2.0
"""A trace's commands as compiled parts, with torch between them where a host engine lacks an operation.

A replay does what its commands do, once. A part is a function: it reads cells, computes, and writes cells when all of
it is computed. Making the parts changes nothing: commands are noted on values of the note's own, and what they wrote
meanwhile is put back.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch

from tt_cnn.virtual.engines.replay.capture import NotExpressible, graph_of
from tt_cnn.virtual.engines.replay.choice import quickest
from tt_cnn.virtual.engines.replay.eight_bit.guard import EightBit
from tt_cnn.virtual.engines.replay.graph import Node, used_inputs
from tt_cnn.virtual.engines.replay.hosts import HOSTS, Host, serialized
from tt_cnn.virtual.engines.replay.installed import installed
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand, Values, contiguous, viewed
from tt_cnn.virtual.errors.failures import Failure, run_commands

log = logging.getLogger("tt_cnn.virtual")


@dataclass(frozen=True)
class Part:
    """A stretch of the commands: on a host engine, or in torch."""

    engine: str
    commands: Sequence[TracedCommand]
    run: Callable[[], None]
    reason: str = ""
    """Why it is in torch."""
    failed: bool = False
    """An engine could not compile or run it, though it should: torch runs it, so that its numbers are right."""
    eight_bit: EightBit | None = None
    """What became of its layers, where 8 bits were asked for and enough was seen to say."""


@dataclass
class OnHost:
    """Runs a graph from the values of its sources to those of its outputs, chip by chip."""

    host: Host
    sources: Sequence[TracedCell]
    shapes: Sequence[torch.Size]
    """Of the sources: another tensor may look at the same memory in another shape, and write it."""
    outputs: Sequence[TracedCell]
    nodes: Sequence[Node] = ()
    """The graph, where it will be looked at again."""
    keeps: bool = False
    """Inputs are kept in `samples`."""
    samples: list[list[torch.Tensor]] = field(default_factory=list)

    def __call__(self) -> None:
        chips = zip(*(values_of(cell) for cell in self.sources), strict=True)
        inputs = [
            [contiguous(x if x.shape == n else viewed(x, n)) for x, n in zip(values, self.shapes, strict=True)]
            for values in chips
        ]
        if self.keeps:
            self.samples.extend(inputs)
        results = [self.host(values) for values in inputs]
        for i, cell in enumerate(self.outputs):
            cell.values = [chip[i] for chip in results]

    def forget(self) -> None:
        self.keeps, self.samples, self.nodes = False, [], ()


class Replay:
    """Replays commands. It compiles when it is first called with an input that has changed since the capture.

    Which of the values are inputs shows when they change: all else is a constant of the graph, and the graph is made
    again should one of those change after all.
    """

    keeps_graphs = False
    """Graphs hold weights that engines have copies of: they are dropped once compiled."""

    def __init__(
        self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell], host: str | None, exact: bool = False
    ) -> None:
        self.commands = commands
        self.outputs = outputs
        self.host = host
        """The engine to use; None measures which is quickest."""
        self.exact = exact
        """Bit for bit what the commands give."""
        self.parts: list[Part] = []
        self._lock = threading.Lock()
        self._variable: list[TracedCell] = []
        self._known: dict[int, tuple[TracedCell, Values]] = {}
        """What the commands read and has not changed since the capture, by the cell's id."""
        self._state: list[tuple[TracedCell, Values]] = []
        """What they read first and then write, until the first replay with an input makes inputs of it."""
        self._same_on_all_chips = False
        self._also: deque[TracedCell] = deque()

    def note_values(self) -> None:
        """Remember what the commands would read now, when all before the capture is done.

        What they read and write is state that the next replay finds changed: no constant.
        """
        written = {id(cell) for command in self.commands for cell in command.writes}
        first = _read_first(self.commands)
        self._known = {id(cell): (cell, cell.values) for cell in first if id(cell) not in written}
        self._state = [(cell, cell.values) for cell in first if id(cell) in written]

    def also_fill(self, cell: TracedCell) -> None:
        """From the next replay on a buffer holds a cell that was left empty so far. Never blocks."""
        self._also.append(cell)

    def _add_outputs(self) -> None:
        while self._also:
            self.outputs = [*self.outputs, self._also.popleft()]
            self.parts = []

    def __call__(self) -> None:
        with self._lock:
            try:
                self._replay()
            except Failure:  # of a command, and in all that follows from it
                raise
            except BaseException as error:  # nobody knows how far it came
                failure = Failure("a replay", error)
                for command in self.commands:
                    for cell in command.writes:
                        cell.values = failure
                raise failure from error

    def _replay(self) -> None:
        self._add_outputs()
        self._look_for_inputs()
        usable = all(isinstance(cell.values, list) for cell in self._variable)
        if not self._variable or not self._same_on_all_chips or not usable:
            run_commands(self.commands)
        elif self.parts or self._compile_whole():
            self._run_parts()
        else:
            run_commands(self.commands)  # this is the replay; what lies between the parts has values now
            self.parts = self._in_parts()

    def _look_for_inputs(self) -> None:
        """What has changed since the capture is an input: graphs that took it for a constant are made again."""
        changed = [cell for cell, values in self._known.values() if cell.values is not values]
        if not changed and not self._state:
            return
        if not self._variable and not changed and all(cell.values is values for cell, values in self._state):
            return  # nothing has changed yet, so nothing can be reported
        for cell in changed:
            del self._known[id(cell)]
        self._variable += [*changed, *(cell for cell, _ in self._state)]
        self._state = []
        self.parts = []
        self._same_on_all_chips = _same_on_all_chips(values for _, values in self._known.values())

    def _run_parts(self) -> None:
        failures = [failure for i in range(len(self.parts)) if (failure := self._run_part(i)) is not None]
        if failures:
            raise failures[0].again()

    def _run_part(self, i: int) -> Failure | None:
        """A part that cannot run as a whole runs command by command: this once where an input of it failed, from now on
        where its engine did."""
        part = self.parts[i]
        try:
            part.run()
            return None
        except Failure as failure:
            if not isinstance(part.run, OnHost):
                return failure
        except Exception as error:  # of engines, each with its own kinds
            log.warning("%s failed in a replay, whose commands run one by one from now on: %s", part.engine, error)
            why = f"{part.engine} failed: {error}"
            self.parts[i] = Part("torch", part.commands, _runner(part.commands), why, failed=True)
        try:
            run_commands(part.commands)
        except Failure as failure:
            return failure
        return None

    def _compile_whole(self) -> bool:
        """Make one part of all commands, where an engine has all of their operations."""
        try:
            self.parts = [self._compiled(self.commands, self.outputs)]
        except NotExpressible:
            return False
        return True

    def _in_parts(self) -> list[Part]:
        """Commands that no host engine has run in torch, the stretches between them compiled."""
        reasons = [self._reason(command) for command in self.commands]
        parts: list[Part] = []
        start = 0
        for i in range(len(reasons) + 1):
            if i < len(reasons) and bool(reasons[i]) == bool(reasons[start]):
                continue
            commands = self.commands[start:i]
            if reasons[start]:
                why = ", ".join(dict.fromkeys(reasons[start:i]))
                parts.append(Part("torch", commands, _runner(commands), why))
            else:
                needed = {id(c) for c in self.outputs} | {id(r) for one in self.commands[i:] for r in one.reads}
                written = {id(w): w for one in commands for w in one.writes}
                parts.append(self._compiled(commands, [w for key, w in written.items() if key in needed]))
            start = i
        return parts

    def _reason(self, command: TracedCommand) -> str:
        """What of a command cannot be compiled; empty where all can."""
        if not command.writes:
            return command.name
        try:
            program, inputs = self._program([command], list(command.writes))
            graph_of(program, inputs, self.exact)
        except NotExpressible as error:
            return f"{command.name} ({error.operation})"
        return ""

    def _compiled(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Part:
        program, inputs = self._program(commands, outputs)
        sources = self._sources(commands)
        nodes = graph_of(program, inputs, self.exact)
        used = used_inputs(nodes)
        sources, inputs = [sources[i] for i in used], [inputs[i] for i in used]
        if not sources:
            return Part("torch", commands, _runner(commands), "the same at every replay")
        try:
            name, host = self._host(nodes, inputs)
        except Exception as error:  # of engines and compilers, each with its own kinds
            log.warning("a part of a trace is not compiled, its commands run one by one: %s", error)
            return Part("torch", commands, _runner(commands), f"compiling failed: {error}", failed=True)
        shapes = [x.shape for x in inputs]
        return Part(name, commands, OnHost(host, sources, shapes, outputs, nodes if self.keeps_graphs else ()))

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        """What runs a graph, and its name."""
        threads = torch.get_num_threads()
        if self.host is None:
            return quickest(nodes, inputs, threads, installed())
        host = HOSTS[self.host](nodes, threads)
        serialized.cache_clear()
        return self.host, host

    def _sources(self, commands: Sequence[TracedCommand]) -> list[TracedCell]:
        """What a stretch of commands reads from before it, and may be different at the next replay."""
        constant = {key for key, (cell, _) in self._known.items()}
        return [cell for cell in _read_first(commands) if id(cell) not in constant]

    def _program(
        self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]
    ) -> tuple[Callable[..., list[torch.Tensor]], list[torch.Tensor]]:
        """The commands as a function from the values of their sources to those of the outputs, for the first chip."""
        sources = self._sources(commands)
        inputs = [values_of(cell)[0].contiguous() for cell in sources]
        if any(x.dtype != torch.float32 for x in inputs):
            raise NotExpressible("inputs of whole numbers")

        def program(*values: torch.Tensor) -> list[torch.Tensor]:
            for cell, value in zip(sources, values, strict=True):
                cell.values = [value] * len(values_of(cell))
            for command in commands:
                command.run()
            return [values_of(cell)[0] for cell in outputs]

        kept = [(cell, cell.values) for cell in (*sources, *(w for c in commands for w in c.writes))]

        def undone(*values: torch.Tensor) -> list[torch.Tensor]:
            try:
                return program(*values)
            finally:
                for cell, before in kept:
                    cell.values = before

        return undone, inputs


def _runner(commands: Sequence[TracedCommand]) -> Callable[[], None]:
    return lambda: run_commands(commands)


def _read_first(commands: Sequence[TracedCommand]) -> list[TracedCell]:
    """Cells that are read before they are written, in that order."""
    written: set[int] = set()
    found: dict[int, TracedCell] = {}
    for command in commands:
        for cell in command.reads:
            if id(cell) not in written:
                found.setdefault(id(cell), cell)
        written.update(id(cell) for cell in command.writes)
    return list(found.values())


def values_of(cell: TracedCell) -> list[torch.Tensor]:
    if isinstance(cell.values, Failure):
        raise cell.values.again()
    assert cell.values is not None
    return cell.values


def written_by(parts: Sequence[Part]) -> list[TracedCell]:
    """The cells that parts write."""
    cells = [
        run.outputs if isinstance(run := part.run, OnHost) else [cell for one in part.commands for cell in one.writes]
        for part in parts
    ]
    return list({id(cell): cell for some in cells for cell in some}.values())


def restore(held: Sequence[tuple[TracedCell, Values]]) -> None:
    """Give cells back what they held."""
    for cell, values in held:
        cell.values = values


def _same_on_all_chips(constants: Iterable[Values]) -> bool:
    return all(not isinstance(values, list) or all(v is values[0] for v in values) for values in constants)
