# SPDX-License-Identifier: Apache-2.0
"""Replays in 16 bits that run their commands where inputs are not what 16 bits are for."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import torch

from tt_cnn.virtual.engines.replay.cuda.growth import power_of_command, powers
from tt_cnn.virtual.engines.replay.graph import Node
from tt_cnn.virtual.engines.replay.hosts import Host
from tt_cnn.virtual.engines.replay.measurement import Measurement, create_measurement
from tt_cnn.virtual.engines.replay.replay import OnHost, Part, Replay, restore, values_of, written_by
from tt_cnn.virtual.engines.streams import on_host
from tt_cnn.virtual.engines.traced import TracedCell, TracedCommand
from tt_cnn.virtual.errors.failures import Failure, run_commands

LARGER = 4.0
"""Inputs may be so many times as large as those that a replay was compiled for."""
SQUARES = 2.0
ROOM = LARGER**SQUARES
"""Float16 is taken where its largest number is so many times as large as any value of the first inputs', so that the
squares of larger inputs have room too; it is more where values grow by a higher power (`growth.py`)."""


def ends(value: torch.Tensor) -> torch.Tensor:
    """The least and the largest value; of NaN both are."""
    return torch.stack(value.aminmax()) if value.numel() else value.new_zeros(2)


def known_ends(value: torch.Tensor) -> list[float] | None:
    """Of values that came from the host and are the same still. Nobody changes those of a host tensor in place, so each
    is looked at once, however often it is uploaded."""
    host = on_host(value)
    if host is not None:
        if not hasattr(host, "ends"):
            host.ends = [float(one) for one in host.aminmax()] if host.numel() else [0.0, 0.0]  # type: ignore[attr-defined]
        value.ends = host.ends  # type: ignore[attr-defined]
    found: list[float] | None = getattr(value, "ends", None)
    return found


class GuardedReplay(Replay):
    """Compiles as replays on the CPU do, with one host.

    Kernels of 16 bits are for ordinary numbers: some multiply pixels beside a window by 0, which infinities show, and
    float16 ends at 65504. Where inputs are not finite, or much larger than those it was compiled for, its commands run.
    What came from the host is looked at there; other inputs on the GPU, while the replay runs already.
    """

    def __init__(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> None:
        super().__init__(commands, outputs, "cuda")
        self._largest = 0.0
        """Of the inputs that parts were compiled for."""
        self._outgrown = False
        self._ends: Measurement | None = None
        self._powers: dict[int, float] = {}
        """By which power of the inputs grows what the commands have written that were looked at; by the cell's id."""
        self._looked_at = 0
        self._ends_of_part: tuple[Sequence[TracedCell], Sequence[TracedCell]] = ((), ())
        """Sources and outputs of the part that is being compiled."""

    def _look_for_inputs(self) -> None:
        super()._look_for_inputs()
        if self._outgrown:
            self.parts, self._outgrown = [], False

    def _run_parts(self) -> None:
        inputs = [value for cell in self._variable for value in values_of(cell) if value.is_floating_point()]
        if not inputs or all(part.engine == "torch" for part in self.parts):
            return super()._run_parts()
        rows = [known_ends(value) for value in inputs]
        if None not in rows:
            largest = largest_of([row for row in rows if row is not None])
            if largest <= self._limit():
                return super()._run_parts()
        else:
            largest = self._run_and_look(inputs)
            if largest <= self._limit():
                return None
        run_commands(self.commands)
        if math.isfinite(largest):
            self._largest, self._outgrown = largest, True
        return None

    def _run_and_look(self, inputs: Sequence[torch.Tensor]) -> float:
        """Launch the replay, and look at its inputs meanwhile. Where they are too large, all cells are as before it."""
        if self._ends is None:
            self._ends = create_measurement(ends, inputs)
        self._ends.start(inputs)
        before = [(cell, cell.values) for cell in written_by(self.parts)]
        try:
            super()._run_parts()
        except Failure:  # whose values in 16 bits may be wrong ones
            self._ends.wait()
            restore(before)
            run_commands(self.commands)
            return 0.0
        largest = largest_of(self._ends.wait())
        if not largest <= self._limit():
            restore(before)
        return largest

    def _limit(self) -> float:
        for part in self.parts:
            if isinstance(part.run, OnHost) and getattr(part.run.host, "dtype", None) == torch.float16:
                return LARGER * self._largest
        return sys.float_info.max

    def _compile_whole(self) -> bool:
        self._powers, self._looked_at = {}, 0
        return super()._compile_whole()

    def _compiled(self, commands: Sequence[TracedCommand], outputs: Sequence[TracedCell]) -> Part:
        first = self.commands.index(commands[0])
        for command in self.commands[self._looked_at : first]:  # torch runs these
            power = power_of_command(command.name, [self._power(cell) for cell in command.reads])
            self._powers.update((id(cell), power) for cell in command.writes)
        self._ends_of_part = self._sources(commands), outputs
        part = super()._compiled(commands, outputs)
        self._looked_at = first + len(commands)
        return part

    def _host(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor]) -> tuple[str, Host]:
        sources, outputs = self._ends_of_part
        found = powers(nodes, lambda number: self._power(sources[number]))
        self._powers.update((id(cell), found[id(node)]) for cell, node in zip(outputs, nodes, strict=True))
        return "cuda", self._graph(nodes, inputs, (LARGER * self._growth()) ** max(SQUARES, *found.values()))

    def _power(self, cell: TracedCell) -> float:
        return self._powers.get(id(cell), 1.0)

    def _graph(self, nodes: Sequence[Node], inputs: Sequence[torch.Tensor], room: float) -> Host:
        """What runs the nodes, in float16 only where values leave so much room. Its `dtype` says which it took."""
        raise NotImplementedError

    def _growth(self) -> float:
        """How many times as large as the present inputs others were."""
        values = [value for cell in self._variable for value in values_of(cell) if value.is_floating_point()]
        now = largest_of([ends(value).tolist() for value in values])
        self._largest = max(self._largest, now if math.isfinite(now) else 0.0)
        return self._largest / now if 0.0 < now < self._largest else 1.0


def largest_of(rows: Sequence[Sequence[float]]) -> float:
    """The largest magnitude; NaN where one is."""
    numbers = [abs(number) for row in rows for number in row]
    return math.nan if any(map(math.isnan, numbers)) else max(numbers, default=0.0)
